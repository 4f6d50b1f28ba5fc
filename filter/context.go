package filter

import "context"

type transactionKey struct{}

// With returns a context that carries t: what is done with it is done for t.
func With(ctx context.Context, t *Transaction) context.Context {
	return context.WithValue(ctx, transactionKey{}, t)
}

// Of returns the transaction that something is done for, nil when none is
// known.
func Of(ctx context.Context) *Transaction {
	t, _ := ctx.Value(transactionKey{}).(*Transaction)
	return t
}

// A Stored is the body of a response that does not come from an origin but from
// a store, with what was made of it before. Verdicts on it are kept beside it:
// the key says all that decided besides the body.
type Stored interface {
	// Judged says whether anything is kept: most policies keep nothing, and making
	// a key costs more than asking.
	Judged() bool
	// Verdict returns what was kept under a key. It must not be changed.
	Verdict(key [16]byte) (value []byte, ok bool)
	// Keep keeps a value under a key.
	Keep(key [16]byte, value []byte)
}
