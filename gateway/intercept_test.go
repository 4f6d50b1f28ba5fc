package gateway

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"shuultuur/intercept"
)

// TestRefusedCertificatesAreCountedInTheSharedState, even after a reload.
func TestRefusedCertificatesAreCountedInTheSharedState(t *testing.T) {
	file := folder(t, map[string]string{"shuultuur.yaml": `
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0"}
data: ./data
intercept: {root: root.pem, except-after: 3}
policies: [{name: all, decrypt: true}]
`})
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Write(filepath.Join(filepath.Dir(file), "root.pem"), false); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	g, err := New(ctx, filepath.Join(filepath.Dir(file), "shuultuur.yaml"), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	for _, when := range []string{"at the start", "after a reload"} {
		if in := g.engine.Load().Intercept; in == nil || in.ExceptAfter != 3 || in.Memory != g.engine.Load().State {
			t.Errorf("%s: the interception is %+v, want the shared state as its memory", when, in)
		}
		if err := g.Reload(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
