package state

import "context"

// CompareAll compares all instructions with Redis at once, and not in ten minutes.
func (f *Fleet) CompareAll(ctx context.Context) { f.compare(ctx, true) }
