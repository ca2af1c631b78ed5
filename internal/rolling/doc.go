// Package rolling deploys a new version of an event: two real builds of the example, the
// old one with version 1 of order.accepted and the new one with version 2 as well, on a
// database and a broker that they share.
package rolling
