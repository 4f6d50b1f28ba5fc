package filter

import (
	"context"
	"time"

	"shuultuur/lib/message"
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

// JudgeTime is the time that judging a body of n bytes may take, without waiting for other
// servers. It is generous: 64 MiB of text, which a small compressed body may become, take a few
// seconds on a slow processor, and at most twice as many bodies are judged at a time as there are
// processors. A judgement that takes longer was made to, or a check is at fault.
func JudgeTime(n int64) time.Duration {
	return 15*time.Second + time.Duration(n>>20)*time.Second
}

// A Waiter is a context that limits the time of work. Waiting for another server does not count.
type Waiter interface{ Waiting(on bool) }

// Waiting says that work for ctx begins or ends to wait for another server.
func Waiting(ctx context.Context, on bool) {
	if w, ok := ctx.(Waiter); ok {
		w.Waiting(on)
	}
}
