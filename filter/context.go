package filter

import (
	"context"

	"shuultuur/message"
)

type transactionKey struct{}

// With returns a context that carries t, for work that is done for t.
func With(ctx context.Context, t *Transaction) context.Context {
	return context.WithValue(ctx, transactionKey{}, t)
}

// Of returns the transaction that work is done for, nil if unknown.
func Of(ctx context.Context) *Transaction {
	t, _ := ctx.Value(transactionKey{}).(*Transaction)
	return t
}

// A Stored is the body of a response from a store instead of an origin, with verdicts on it.
// The key of a verdict covers everything that decided besides the body.
type Stored interface {
	// HasVerdicts reports whether there are verdicts: most policies store none, and making a key
	// costs more than calling Judged.
	HasVerdicts() bool
	// Verdict returns the value stored under a key. It must not be changed.
	Verdict(key [16]byte) (value []byte, ok bool)
	// KeepVerdict stores a value under a key.
	KeepVerdict(key [16]byte, value []byte)
}

// StoredOf returns the keeper of verdicts on a body from a store, even while checks see it:
// then body has a method that returns the store. It is nil for a body from an origin.
func StoredOf(body message.Body) Stored {
	if b, ok := body.(interface{ Stored() Stored }); ok {
		return b.Stored()
	}
	s, _ := body.(Stored)
	return s
}
