package account

import "context"

type whoKey struct{}

// With returns a context that knows who asks.
func With(ctx context.Context, w *Who) context.Context { return context.WithValue(ctx, whoKey{}, w) }

// Of returns who asks, nil where nobody does.
func Of(ctx context.Context) *Who {
	w, _ := ctx.Value(whoKey{}).(*Who)
	return w
}
