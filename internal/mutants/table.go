package main

import "slices"

// mutants is the table, by what is broken.
var mutants = slices.Concat(txMutants, sqlMutants, relayMutants, consumerMutants, brokerMutants, upcastMutants, opsMutants)
