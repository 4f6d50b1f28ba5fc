// Package sign signs zones (DNSSEC, RFC 4033 to 4035): whole zones when they are loaded, and
// single answers on demand.
//
// A [Signer] holds the keys of one zone. It takes the records of a zone file; [Signer.Zone]
// returns the zone to serve: with DNSKEY, CDS and CDNSKEY, a chain of NSEC or NSEC3 records
// and an RRSIG for each set. Signatures are kept by the data that they sign, and are renewed
// some days before they expire ([Signer.Renew] says when). A served zone changes by
// [Signer.Change]: its server has new sets signed, and repairs the chain.
//
// Some data cannot be signed in advance: a set selected for the client, the answer of an
// alias, a name that does not exist. [Signer.Sign] and [Signer.Deny] sign them on demand, with
// a cache of bounded size and at a bounded rate: a new signature costs forty times as much as
// an answer, and strangers choose the names.
//
// Keys come from files and follow the times in them. [Signer.Roll] reads the files again, and
// writes them where it changes keys itself. [Signer.ParentHas] reports the parent's DS
// records. [Signer.Signatures] and [Signer.Restore] keep signatures over a restart.
package sign
