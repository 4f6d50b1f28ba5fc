package account

import "context"

type whoKey struct{}

// With returns a context with the user.
func With(ctx context.Context, w *Who) context.Context { return context.WithValue(ctx, whoKey{}, w) }

// Of returns the user in a context, or nil.
func Of(ctx context.Context) *Who {
	w, _ := ctx.Value(whoKey{}).(*Who)
	return w
}
