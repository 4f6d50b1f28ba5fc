//go:build !small

package engine

import (
	"context"
	"io"
	"log/slog"

	"shuultuur/engine/configuration"
	"shuultuur/helper"
)

// AnswerSquid answers questions of a kind from Squid until in ends, with only the settings in
// file. It records nothing, and does not know the instructions that a running gateway has
// received.
func AnswerSquid(ctx context.Context, file, kind string, in io.Reader, out io.Writer, log *slog.Logger) error {
	s, err := configuration.Read(file)
	if err != nil {
		return err
	}
	e, err := Build(ctx, s, nil, nil, log)
	if err != nil {
		return err
	}
	defer e.Drop(nil, log)
	h := helper.New("", e.Proxy.Inspector(), nil, log)
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
