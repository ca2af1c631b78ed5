package consumerproof

func runChild(string) error { return nil }

const childEnv = "OUTBOXGEN_TEST_CONSUMER"
