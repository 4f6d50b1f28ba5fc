package gateway

import (
	"context"
	"io"
	"log/slog"
	"net/netip"

	"shuultuur/filter"
	"shuultuur/helper"
)

// squid is the socket for Squid's helpers, nil for none.
func (s *Settings) squid() any {
	if s.Listen.Squid == "" {
		return nil
	}
	return s.Listen.Squid
}

func newHelpers(_ context.Context, b *builder) (*helper.Server, error) {
	if b.trial() {
		return helper.New(string(b.settings.Listen.Squid), b.proxy.Inspector(), nil, b.log), nil
	}
	return helper.New(string(b.settings.Listen.Squid), b.proxy.Inspector(), b.g.done, b.log), nil
}

// helperEngine is what Squid's helpers decide with.
func (e *Engine) helperEngine() *helper.Engine {
	return &helper.Engine{
		Decider: e.policies.Engine, Accept: e.policies.Accept, Balance: e.balance, Pages: e.pages,
		Identify: func(ctx context.Context, addr netip.Addr) (filter.Client, error) { return e.Identify(ctx, addr) },
		Member: func(ctx context.Context, addr netip.Addr, user string) (filter.Client, error) {
			return e.identity.Member(ctx, addr, user, "squid")
		},
		Verify:   e.identity.Verify,
		HasGroup: e.identity.HasGroup,
		Checks:   e.checks.Checks,
	}
}

// SquidSocket returns where a gateway with the settings in file answers Squid's
// helpers, "" when it does not.
func SquidSocket(file string) (string, error) {
	s, err := Read(file)
	if err != nil {
		return "", err
	}
	return string(s.Listen.Squid), nil
}

// AnswerSquid answers questions of Squid of a kind by the settings in file alone,
// until in ends. Nothing is recorded, and what others tell a running gateway is
// not known here.
func AnswerSquid(ctx context.Context, file, kind string, in io.Reader, out io.Writer, log *slog.Logger) error {
	s, err := Read(file)
	if err != nil {
		return err
	}
	e, err := build(ctx, s, nil, nil, log)
	if err != nil {
		return err
	}
	defer e.drop(nil, log)
	h := helper.New("", e.proxy.Inspector(), nil, log)
	if err := h.Use(e.helperEngine()); err != nil {
		return err
	}
	if err := h.Listen(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	err = h.Answer(ctx, kind, in, out)
	stop()
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}
