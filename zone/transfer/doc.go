// Package transfer moves zones between servers: out to secondaries (AXFR, RFC 5936; IXFR, RFC
// 1995), in from primaries, with notifications of changes (NOTIFY, RFC 1996) both ways, and
// authenticated with shared keys (TSIG, RFC 8945).
//
// Every served zone passes through [Server.Publish], whatever its source: it gets its serial,
// is signed if it has a signer, and goes to the responder that serves it. If clients may fetch
// it, it is remembered with the differences to its previous versions. Then the secondaries are
// notified.
//
// A zone fetched from a primary also ends in Publish. A separate goroutine queries the
// primary when the SOA record or a NOTIFY says so. [Server.Run] owns all goroutines: these,
// one that sends notifications, one that renews signatures, and one that writes the files
// for a restart.
//
// Nobody may fetch anything unless the settings permit it.
package transfer
