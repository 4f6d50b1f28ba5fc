// Package helper answers Squid's helper interfaces: to which URL a request goes
// (url_rewrite_program), whether an acl matches (external_acl_type), whether a password
// is right (auth_param basic).
//
// Data moves as follows. Squid starts a process, "shuultuur squid KIND", and writes a
// line to it for each question. The process passes the lines to the running gateway
// over a unix socket and returns the answers ([Relay]). The gateway answers each
// connection with [Server.Answer]. If there is no gateway, the process answers with the
// same function. A request is judged like one of the proxy, as far as its head. The
// page of a refused request is kept for two minutes, and Squid fetches it from a port
// of this machine (pages.go).
//
// The protocol is that of Squid 3.4 and later
// (https://wiki.squid-cache.org/Features/AddonHelpers).
package helper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/handover"
	"shuultuur/proxy/exchange"
)

// Kinds are the kinds of helpers: they choose where requests go, whether they
// pass, whether a password is right, and which groups a user has.
var Kinds = []string{"rewrite", "acl", "auth", "group"}

const (
	maxLine       = 256 << 10 // bytes of a question; Squid's are shorter, escaped too
	maxAsked      = 256       // open questions of one connection
	maxConns      = 1024      // connections of helpers
	greeting      = "shuultuur helper "
	greetingLimit = 10 * time.Second
)

// A Server answers helpers. Use [New] to make one.
type Server struct {
	socket    string
	inspector *exchange.Inspector
	done      func(*filter.Transaction)
	log       *slog.Logger
	ids       filter.IDs
	engine    atomic.Pointer[Engine]
	pages     pages
	listener  net.Listener
	counters
}

// New returns a server that listens on a unix socket, or on none if socket is
// "". It passes each completed transaction to done.
func New(socket string, i *exchange.Inspector, done func(*filter.Transaction), log *slog.Logger) *Server {
	if done == nil {
		done = func(*filter.Transaction) {}
	}
	s := &Server{socket: socket, inspector: i, done: done, log: log}
	s.pages.of = map[string]*refused{}
	return s
}

// Use lets e decide about later questions.
func (s *Server) Use(e *Engine) error {
	if e == nil || e.Decider == nil || e.Identify == nil || e.Member == nil || e.Verify == nil || e.Pages == nil {
		return errors.New("helper: an engine needs Decider, Pages, Identify, Member and Verify")
	}
	c := *e
	c.judge = exchange.Engine{Decider: c.Decider, Accept: c.Accept, Balance: c.Balance, Pages: c.Pages}
	c.categories = map[string]bool{}
	for _, k := range c.Checks {
		for _, cat := range k.Categories() {
			c.categories[cat.Name] = true
		}
	}
	s.engine.Store(&c)
	return nil
}

// Listen opens the socket, and the port of this machine for pages. It replaces a
// socket that an earlier gateway has left. Any program that may connect may ask
// everything: the socket is accessible to its owner and its group, which is that
// of the folder if the folder has set-group-ID.
func (s *Server) Listen(ctx context.Context) error {
	if err := s.pages.listen(ctx); err != nil {
		return err
	}
	if s.socket == "" {
		return nil
	}
	if !handover.Inherits(ctx, "unix", s.socket) {
		if c, err := net.DialTimeout("unix", s.socket, time.Second); err == nil {
			c.Close()
			return errors.Join(fmt.Errorf("another gateway answers on %q", s.socket), s.Close())
		}
		if info, err := os.Lstat(s.socket); err == nil && info.Mode().Type() == fs.ModeSocket {
			_ = os.Remove(s.socket) // listening returns the error
		}
	}
	l, err := handover.Listen(ctx, new(net.ListenConfig), "unix", s.socket)
	if err == nil {
		if u, ok := l.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(true) // also one that was taken over
		}
		if err = os.Chmod(s.socket, 0o660); err != nil {
			l.Close()
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot listen on %q: %w", s.socket, err), s.Close())
	}
	s.listener = l
	return nil
}

// Close closes the sockets that Listen opened.
func (s *Server) Close() error {
	var errs []error
	for _, l := range []net.Listener{s.listener, s.pages.listener} {
		if l != nil {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// Run answers helpers and serves pages until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var work sync.WaitGroup
	var failed error
	work.Go(func() {
		defer stop()
		failed = s.pages.serve(ctx, s)
	})
	if s.listener == nil {
		work.Wait()
		return failed
	}
	closed := context.AfterFunc(ctx, func() {
		if u, ok := s.listener.(*net.UnixListener); ok {
			if _, over := handover.HurryFrom(ctx); over {
				u.SetUnlinkOnClose(false) // another process listens there
			}
		}
		s.listener.Close()
	})
	defer closed()
	for {
		c, err := s.listener.Accept()
		if err != nil {
			if ctx.Err() == nil {
				stop()
				work.Wait()
				return fmt.Errorf("accept a helper of Squid: %w", err)
			}
			work.Wait()
			return failed
		}
		if s.open.Add(1) > maxConns {
			s.open.Add(-1)
			s.full.Add(1)
			c.Close()
			continue
		}
		work.Go(func() {
			defer s.open.Add(-1)
			s.serve(ctx, c)
		})
	}
}

// serve answers one helper.
func (s *Server) serve(ctx context.Context, c net.Conn) {
	defer c.Close()
	end := context.AfterFunc(ctx, func() { c.Close() })
	defer end()
	r := bufio.NewReaderSize(c, maxLine)
	_ = c.SetReadDeadline(time.Now().Add(greetingLimit)) // fails if c is closed, and then so does the read
	line, err := r.ReadString('\n')
	kind, ok := strings.CutPrefix(strings.TrimSpace(line), greeting)
	if err != nil || !ok || !slices.Contains(Kinds, kind) {
		s.log.Warn("a helper of Squid does not say what it is", "error", fmt.Errorf("it said %.80q", line))
		return
	}
	_ = c.SetReadDeadline(time.Time{}) // as above
	if err := s.answer(ctx, kind, r, c); err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
		s.log.Warn("a helper of Squid went away", "kind", kind, "error", err)
	}
}

// Answer reads questions of a kind from in and writes the answers to out, until
// in ends. Questions with a channel ID are answered as results arrive, others
// in order.
func (s *Server) Answer(ctx context.Context, kind string, in io.Reader, out io.Writer) error {
	return s.answer(ctx, kind, bufio.NewReaderSize(in, maxLine), out)
}

func (s *Server) answer(ctx context.Context, kind string, r *bufio.Reader, out io.Writer) error {
	var work sync.WaitGroup
	defer work.Wait()
	var writing sync.Mutex
	turns := make(chan struct{}, maxAsked)
	for {
		line, err := readLine(r)
		if err == io.EOF {
			return nil
		}
		if err != nil && err != errLong {
			return err
		}
		channel, rest := channelOf(kind, line)
		s.asked.Add(1)
		reply := func(cause error) {
			a := tooLong(kind)
			if cause == nil {
				a = s.one(ctx, kind, rest)
			}
			writing.Lock()
			defer writing.Unlock()
			_, _ = out.Write(answered(channel, a)) // if the reader is gone, the next read ends
		}
		if channel == "" {
			reply(err)
			continue
		}
		turns <- struct{}{}
		work.Go(func() {
			defer func() { <-turns }()
			reply(err)
		})
	}
}

var errLong = errors.New("a line too long")

// readLine reads a line, or the beginning of an overlong one.
func readLine(r *bufio.Reader) (string, error) {
	b, err := r.ReadSlice('\n')
	line := strings.TrimRight(string(b), "\r\n")
	if err != bufio.ErrBufferFull {
		if err == io.EOF && line != "" {
			err = nil
		}
		return line, err
	}
	for err == bufio.ErrBufferFull {
		_, err = r.ReadSlice('\n')
	}
	if err != nil {
		return "", err
	}
	return line, errLong
}

// one answers one question.
func (s *Server) one(ctx context.Context, kind, line string) (answer []byte) {
	defer func() {
		if r := recover(); r != nil {
			s.failed.Add(1)
			s.log.Error("panic in the answer to a helper of Squid", "kind", kind, "panic", r, "stack", string(debug.Stack()))
			answer = broken("internal error")
		}
	}()
	e := s.engine.Load()
	switch kind {
	case "rewrite":
		return s.rewrite(ctx, e, line)
	case "acl":
		return s.acl(ctx, e, line)
	case "auth":
		return s.auth(ctx, e, line)
	case "group":
		return s.group(ctx, e, line)
	}
	return broken("no helper is called " + kind)
}

// broken returns the answer that there is no result, with the reason.
func broken(why string) []byte { return appendPair([]byte("BH"), "message", why, false) }

// tooLong returns the answer to an overlong question. Squid passes a request if the
// rewriter does not answer.
func tooLong(kind string) []byte {
	if kind == "rewrite" {
		return appendPair([]byte("OK status=302"), "url", "http://"+exchange.OwnHost+"/", true)
	}
	return broken("the question is longer than 256 KiB")
}
