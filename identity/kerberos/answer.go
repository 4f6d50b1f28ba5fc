package kerberos

import (
	"crypto/rand"
	"encoding/asn1"
	"encoding/binary"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"golang.org/x/crypto/cryptobyte"
	der "golang.org/x/crypto/cryptobyte/asn1"
)

// A wrapping records how a request to our service was wrapped; its answer is
// wrapped likewise.
type wrapping struct {
	mechanism asn1.ObjectIdentifier // mechanism of the Kerberos token
	offered   asn1.ObjectIdentifier // the first mechanism offered in SPNEGO; nil without SPNEGO
	resumed   bool                  // the mechanism was agreed on in SPNEGO before
}

const (
	mutualRequired = 2  // bit of ap-options (RFC 4120, 5.5.1)
	answerUsage    = 12 // key usage of the encrypted part (RFC 4120, 7.5.1)
)

// answer returns the token that proves to a client with mutual-required that we
// could decrypt its ticket: AP-REP (RFC 4120, 5.5.2), wrapped as the request was
// (RFC 4121, 4.1.2; RFC 4178, 4.2.2). It is nil if the client does not require
// one. A client that has gone on with a negotiation is told its end.
func answer(q *messages.APReq, w wrapping) ([]byte, error) {
	if !types.IsFlagSet(&q.APOptions, mutualRequired) {
		if w.resumed {
			return completed(w, nil)
		}
		return nil, nil
	}
	var number [4]byte
	_, _ = rand.Read(number[:]) // never fails
	plain, err := build(func(b *cryptobyte.Builder) {
		b.AddASN1(application27, func(b *cryptobyte.Builder) {
			b.AddASN1(der.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1(context0, func(b *cryptobyte.Builder) { b.AddASN1GeneralizedTime(q.Authenticator.CTime.UTC()) })
				b.AddASN1(context1, func(b *cryptobyte.Builder) { b.AddASN1Int64(int64(q.Authenticator.Cusec)) })
				b.AddASN1(context3, func(b *cryptobyte.Builder) {
					b.AddASN1Int64(int64(binary.BigEndian.Uint32(number[:]) >> 2)) // some clients accept at most 30 bits
				})
			})
		})
	})
	if err != nil {
		return nil, err
	}
	sealed, err := crypto.GetEncryptedData(plain, q.Ticket.DecryptedEncPart.Key, answerUsage, 0)
	if err != nil {
		return nil, err
	}
	token := func(b *cryptobyte.Builder) {
		b.AddASN1(application, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(w.mechanism)
			b.AddBytes([]byte{2, 0})
			b.AddASN1(application15, func(b *cryptobyte.Builder) { reply(b, &sealed) })
		})
	}
	if w.offered == nil && !w.resumed {
		return build(token)
	}
	return completed(w, token)
}

// completed returns the end of a negotiation, with a token or nil.
func completed(w wrapping, token cryptobyte.BuilderContinuation) ([]byte, error) {
	return build(func(b *cryptobyte.Builder) {
		b.AddASN1(context1, func(b *cryptobyte.Builder) { // NegTokenResp
			b.AddASN1(der.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1(context0, func(b *cryptobyte.Builder) { b.AddASN1Enum(acceptCompleted) })
				if w.offered != nil { // the first answer says it
					b.AddASN1(context1, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(w.offered) })
				}
				if token != nil {
					b.AddASN1(context2, func(b *cryptobyte.Builder) { b.AddASN1(der.OCTET_STRING, token) })
				}
			})
		})
	})
}

// reply appends the contents of an AP-REP.
func reply(b *cryptobyte.Builder, sealed *types.EncryptedData) {
	b.AddASN1(der.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1(context0, func(b *cryptobyte.Builder) { b.AddASN1Int64(5) })
		b.AddASN1(context1, func(b *cryptobyte.Builder) { b.AddASN1Int64(15) })
		b.AddASN1(context2, func(b *cryptobyte.Builder) {
			b.AddASN1(der.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1(context0, func(b *cryptobyte.Builder) { b.AddASN1Int64(int64(sealed.EType)) })
				b.AddASN1(context2, func(b *cryptobyte.Builder) { b.AddASN1OctetString(sealed.Cipher) })
			})
		})
	})
}

func build(fill func(*cryptobyte.Builder)) ([]byte, error) {
	b := cryptobyte.NewBuilder(nil)
	fill(b)
	return b.Bytes()
}
