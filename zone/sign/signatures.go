package sign

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Signatures are those of one whole zone, by signed data and key.
type Signatures struct {
	mu         sync.RWMutex // the zone may change while they are written to disk
	signatures map[digest]signature
}

func (k *Signatures) put(d digest, sig signature) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.signatures[d] = sig
}

func (k *Signatures) drop(d digest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.signatures, d)
}

// A digest identifies signed data and its key.
type digest [16]byte

type signature struct {
	data                  string // in the form of an RRSIG record
	inception, expiration uint32
}

// find returns the signature of d if it is valid now and after a time.
func (k *Signatures) find(d digest, now, past time.Time) (signature, bool) {
	if k == nil {
		return signature{}, false
	}
	sig, ok := k.signatures[d]
	return sig, ok && int64(sig.inception) <= now.Unix() && int64(sig.expiration) > past.Unix()
}

// Signatures returns the signatures that Zone, and Whole if it was called, made for a view, to
// be stored over a restart; nil before the first time.
func (s *Signer) Signatures(view string) *Signatures {
	s.signing.Lock()
	defer s.signing.Unlock()
	if whole := s.sigs[view+wholeSlot]; whole != nil {
		return whole // it includes the others
	}
	return s.sigs[view]
}

// Restore gives a view the signatures from before a restart. Those of changed records, keys or
// times are not used.
func (s *Signer) Restore(view string, kept *Signatures, now time.Time) {
	s.signing.Lock()
	defer s.signing.Unlock()
	s.restored[view] = kept
	renew := now.Add(shortest + spread)
	var begins time.Time
	for _, sig := range kept.signatures {
		if at := time.Unix(int64(sig.inception), 0); at.After(begins) {
			begins = at
		}
		if at := time.Unix(int64(sig.expiration), 0).Add(-reserve); at.Before(renew) {
			renew = at
		}
	}
	s.renewMu.Lock()
	defer s.renewMu.Unlock()
	s.renew[view], s.begins[view] = s.keyTimes(now, renew), begins
}

// The stored form of signatures: their number (4 bytes), and for each the digest, inception,
// expiration, length (2 bytes) and data; integers are big endian.
const sigFixed = len(digest{}) + 4 + 4 + 2

// WriteTo writes signatures for [ReadSignatures]. It implements [io.WriterTo].
func (k *Signatures) WriteTo(w io.Writer) (int64, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	b := binary.BigEndian.AppendUint32(nil, uint32(len(k.signatures)))
	n, err := w.Write(b)
	total := int64(n)
	for d, sig := range k.signatures {
		if err != nil {
			return total, err
		}
		b = append(b[:0], d[:]...)
		b = binary.BigEndian.AppendUint32(b, sig.inception)
		b = binary.BigEndian.AppendUint32(b, sig.expiration)
		b = binary.BigEndian.AppendUint16(b, uint16(len(sig.data)))
		b = append(b, sig.data...)
		n, err = w.Write(b)
		total += int64(n)
	}
	return total, err
}

var errSignatures = errors.New("signatures that expire too soon")

// ReadSignatures reads the output of WriteTo from the front of b, and returns the rest. It
// does not verify the signatures: store them where no other process can write.
func ReadSignatures(b []byte) (*Signatures, []byte, error) {
	if len(b) < 4 {
		return nil, nil, errSignatures
	}
	n := int(binary.BigEndian.Uint32(b))
	b = b[4:]
	if n > len(b)/sigFixed {
		return nil, nil, fmt.Errorf("%d signatures in %d bytes", n, len(b))
	}
	size := 0
	for range n {
		if len(b)-size < sigFixed {
			return nil, nil, errSignatures
		}
		size += sigFixed + int(binary.BigEndian.Uint16(b[size+sigFixed-2:]))
	}
	if size > len(b) {
		return nil, nil, errSignatures
	}
	// One string holds them all: many small ones take longer.
	text, rest := string(b[:size]), b[size:]
	k := &Signatures{signatures: make(map[digest]signature, n)}
	for at := 0; at < size; {
		data := at + sigFixed
		end := data + int(binary.BigEndian.Uint16(b[data-2:]))
		k.signatures[digest(b[at:at+len(digest{})])] = signature{
			data: text[data:end], inception: binary.BigEndian.Uint32(b[data-10:]), expiration: binary.BigEndian.Uint32(b[data-6:]),
		}
		at = end
	}
	return k, rest, nil
}
