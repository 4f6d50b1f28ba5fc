// Package transfer moves whole zones between servers: out to secondaries
// (AXFR, RFC 5936; IXFR, RFC 1995), in from primaries, with the news that
// something changed (NOTIFY, RFC 1996) both ways, and signed with shared keys
// (TSIG, RFC 8945).
//
// Every zone that is served goes through [Server.Publish], whoever read it: it
// gets its serial, is signed when it has a signer, is handed to what answers
// for it, and is remembered as far as somebody may fetch it, with the
// differences to what it was before. Then the secondaries are notified. A zone that
// is fetched from a primary ends in Publish too, from a goroutine of its own
// that asks when the SOA record or a NOTIFY says so. [Server.Run] owns all
// goroutines: those, the one that sends news and the one that signs again what
// will expire, and the one that writes what a zone needs to go on after a
// restart.
//
// Nobody may fetch anything until the settings say who.
package transfer
