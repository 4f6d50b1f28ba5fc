package engine

import (
	"context"

	"shuultuur/admin/accounts"
)

func newAccess(_ context.Context, b *builder) (*accounts.Rules, error) {
	return b.Settings.Access.Rules(b.Data.Key)
}
