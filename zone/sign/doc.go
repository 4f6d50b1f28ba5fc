// Package sign signs zones (DNSSEC, RFC 4033 to 4035): whole ones when they
// are loaded, and single answers when they are asked for.
//
// A [Signer] holds the keys of one zone. Records go in as a zone file has
// them; [Signer.Zone] gives back the zone as it is served: with DNSKEY, CDS
// and CDNSKEY, a chain of NSEC or NSEC3 records and an RRSIG for each set of
// records. Signatures are kept by what they sign, and are made anew some days
// before they expire ([Signer.Renew] says when). A zone that is served changes
// by [Signer.Change]: who answers for it has the new sets signed, and mends the
// chain. What cannot be signed beforehand — a set chosen for the client, the
// answer that an alias leads to, a name that is not there — is signed on demand
// by [Signer.Sign] and [Signer.Deny], from a cache of bounded size and at a
// bounded rate: a fresh signature costs forty times what an answer costs, and
// strangers choose the names.
//
// Keys come from files and go by the times in them, which [Signer.Roll] reads
// again, and writes where it changes keys by itself, and [Signer.ParentHas] where
// the parent's DS records are waited for. [Signer.Signatures] and
// [Signer.Restore] take what was signed beforehand over a restart.
package sign
