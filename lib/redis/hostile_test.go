package redis_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/redis"
)

// A hostile server answers every command with +OK. While it is armed, it
// answers commands that begin with its word differently.
type hostile struct {
	addr   string
	word   string
	armed  atomic.Bool
	attack func(w io.Writer) // writes until it is done or an error stops it
}

func newHostile(t *testing.T, word string, attack func(io.Writer)) *hostile {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{addr: l.Addr().String(), word: word, attack: attack}
	h.armed.Store(true)
	var work sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				defer context.AfterFunc(ctx, func() { c.Close() })()
				h.serve(c)
			})
		}
	})
	t.Cleanup(func() { stop(); l.Close(); work.Wait() })
	return h
}

func (h *hostile) serve(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		words, err := readCommand(r)
		if err != nil {
			return
		}
		if h.armed.Load() && words[0] == h.word {
			h.attack(c)
			continue
		}
		if _, err := io.WriteString(c, "+OK\r\n"); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) (words []string, err error) {
	n := func() int {
		line, e := r.ReadString('\n')
		if e != nil || len(line) < 4 {
			err = io.ErrUnexpectedEOF
			return 0
		}
		n, e := strconv.Atoi(line[1 : len(line)-2])
		err = errors.Join(err, e)
		return n
	}
	for range n() {
		b := make([]byte, n()+2)
		if err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		words = append(words, string(b[:len(b)-2]))
	}
	return words, err
}

// text writes a text once.
func text(s string) func(io.Writer) { return func(w io.Writer) { io.WriteString(w, s) } }

// endless writes a text, and then another one until the connection ends.
func endless(first, again string) func(io.Writer) {
	return func(w io.Writer) {
		many := strings.Repeat(again, 1+1000/len(again))
		for _, err := io.WriteString(w, first); err == nil; {
			_, err = io.WriteString(w, many)
		}
	}
}

// drip writes a text, then another one slowly.
func drip(first, again string) func(io.Writer) {
	return func(w io.Writer) {
		_, err := io.WriteString(w, first)
		for err == nil {
			time.Sleep(100 * time.Millisecond)
			_, err = io.WriteString(w, again)
		}
	}
}

var attacks = map[string]func(io.Writer){
	"a string of a huge length":   endless("$999999999999\r\n", "x"),
	"an error of a huge length":   text("!999999999999\r\n"),
	"an array of a huge length":   endless("*999999999999\r\n", ":1\r\n"),
	"a map of a huge length":      text("%999999999999\r\n"),
	"a map that is huge doubled":  text("%9223372036854775807\r\n"),
	"a push of a huge length":     text(">999999999999\r\n"),
	"a length beyond all numbers": text("$99999999999999999999999999\r\n"),
	"a negative length":           text("*-5\r\n"),
	"a string of 8 MiB, in vain":  drip("$8000000\r\n", ""),
	"endless elements":            endless("*2000000\r\n", "$1000\r\n"+strings.Repeat("x", 1000)+"\r\n"),
	"an endless line":             endless("+", "x"),
	"an endless error":            endless("-ERR ", "x"),
	"deep nesting":                text(strings.Repeat("*1\r\n", 100_000)),
	"deep nesting of maps":        text(strings.Repeat("%1\r\n+a\r\n", 100_000)),
	"surplus replies":             text(strings.Repeat("+OK\r\n", 100_000)),
	"surplus errors":              text(strings.Repeat("-ERR no\r\n", 100_000)),
	"endless replies":             endless("", "+OK\r\n"),
	"a page of HTTP":              text("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
	"zeros":                       text(strings.Repeat("\x00", 100_000)),
	"a string without its end":    text("$2\r\nabcdef\r\n"),
	"a type of the future":        text("@3\r\nabc\r\n"),
	"a push inside an array":      text("*1\r\n>1\r\n+x\r\n"),
	"nothing":                     text(""),
	"a reply that drips":          drip("$1000\r\n", "x"),
	"a list that drips":           drip("*1000\r\n", ":1\r\n"),
	"pushes that drip":            drip("", ">2\r\n+invalidate\r\n*1\r\n+a\r\n"),
	"endless pushes":              endless("", ">2\r\n+invalidate\r\n*1\r\n+a\r\n"),
}

// useMemory returns how many bytes of memory are in use.
func useMemory() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// phases are when a server begins to be hostile. Each returns an error when the
// client connects to it, or is at a loss afterwards.
var phases = map[string]func(t *testing.T, name string, attack func(io.Writer)) error{
	"at start": func(t *testing.T, name string, attack func(io.Writer)) error {
		h := newHostile(t, "HELLO", attack)
		c, err := redis.Connect(t.Context(), at(h.addr), redis.Options{Invalid: func([]byte) {}})
		if err == nil {
			c.Close()
			if !strings.Contains(name, "replies") && !strings.Contains(name, "surplus") { // these follow a valid reply
				return errors.New("it connects")
			}
		}
		return nil
	},
	"later": func(t *testing.T, name string, attack func(io.Writer)) error {
		h := newHostile(t, "GET", attack)
		c, err := redis.Connect(t.Context(), at(h.addr), redis.Options{Invalid: func([]byte) {}})
		if err != nil {
			return err
		}
		defer c.Close()
		do := func(word string) error {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			var b redis.Batch
			b.Add(word, "a")
			b.Add(word, "b")
			err := c.Do(ctx, &b)
			if err != nil && ctx.Err() != nil && !strings.Contains(name, "pushes") {
				return nil
			}
			if word == "GET" && err == nil && strings.Contains(name, "replies") {
				return errors.New("these are what was asked for")
			}
			return err
		}
		for range 3 {
			if do("GET") == nil {
				return errors.New("a command is executed, or the server is waited for to the end")
			}
			time.Sleep(60 * time.Millisecond)
		}
		h.armed.Store(false)
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if err = do("SET"); err == nil || time.Now().After(end) {
				return err
			}
		}
	},
	"MGET in a session": func(t *testing.T, _ string, attack func(io.Writer)) error {
		return inSession(t, "MGET", attack, func(s *redis.Session, take func([]byte) error) error {
			return s.Strings(1, func(_ int, b []byte) []byte { return append(b, 'k') }, func(_ int, b []byte) error { return take(b) })
		})
	},
	"SSCAN in a session": func(t *testing.T, _ string, attack func(io.Writer)) error {
		return inSession(t, "SSCAN", attack, func(s *redis.Session, take func([]byte) error) error { return s.Members("k", take) })
	},
	"HLEN in a session": func(t *testing.T, _ string, attack func(io.Writer)) error {
		return inSession(t, "HLEN", attack, func(s *redis.Session, take func([]byte) error) error {
			return s.Hash("k", func(f, _ []byte) error { return take(f) })
		})
	},
	"in a subscription": func(t *testing.T, name string, attack func(io.Writer)) error {
		if strings.Contains(name, "pushes") {
			return nil // these are the subscriptions
		}
		c, err := redis.Connect(t.Context(), at(newHostile(t, "SUBSCRIBE", attack).addr), redis.Options{})
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = c.Subscribe(ctx, redis.Subscription{Channels: []string{"x"}, Ready: func() {}, Message: func(string, []byte) {}})
		return ctx.Err()
	},
	"as a cluster": func(t *testing.T, _ string, attack func(io.Writer)) error {
		return refuses(t, redis.Config{Cluster: true, Addresses: []string{newHostile(t, "CLUSTER", attack).addr}})
	},
	"as a Sentinel": func(t *testing.T, _ string, attack func(io.Writer)) error {
		return refuses(t, redis.Config{Sentinel: "x", Addresses: []string{newHostile(t, "SENTINEL", attack).addr}})
	},
}

func inSession(t *testing.T, word string, attack func(io.Writer), use func(*redis.Session, func([]byte) error) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := redis.Connect(ctx, at(newHostile(t, word, attack).addr), redis.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	s := c.Session(ctx, 100)
	defer s.Close()
	size := 0
	if use(s, func(b []byte) error {
		if size += 1 + len(b); size > 1<<20 {
			return errors.New("enough")
		}
		return nil
	}) == nil {
		return errors.New("nothing is noticed")
	}
	return ctx.Err()
}

func refuses(t *testing.T, cfg redis.Config) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := redis.Connect(ctx, cfg, redis.Options{})
	if err == nil {
		c.Close()
		return errors.New("it connects")
	}
	return ctx.Err()
}

func TestAHostileServerHurtsNobody(t *testing.T) {
	before := useMemory()
	var work sync.WaitGroup
	free := make(chan struct{}, 80)
	for name, attack := range attacks {
		for when, try := range phases {
			work.Go(func() {
				free <- struct{}{}
				if err := try(t, name, attack); err != nil {
					t.Errorf("%s, %s: %v", name, when, err)
				}
				<-free
			})
		}
	}
	work.Wait()
	if after := useMemory(); after > before+16<<20 {
		t.Errorf("%d MiB of memory in use after the hostile server, %d before", after>>20, before>>20)
	}
}

func TestWrongTypesAreErrors(t *testing.T) {
	for reply, check := range map[string]func(r redis.Reply) error{
		"%1\r\n+a\r\n+b\r\n":           func(r redis.Reply) error { _, err := r.Bytes(); return err },
		"*0\r\n":                       func(r redis.Reply) error { _, err := r.Int(); return err },
		"+twelve\r\n":                  func(r redis.Reply) error { _, err := r.Int(); return err },
		"$1\r\na\r\n":                  func(r redis.Reply) error { _, err := r.Texts(); return err },
		"*1\r\n*1\r\n:1\r\n":           func(r redis.Reply) error { _, err := r.Texts(); return err },
		"*3\r\n+a\r\n+b\r\n+c\r\n":     func(r redis.Reply) error { return r.EachPair(func(_, _ []byte) {}) },
		"%1\r\n+a\r\n~1\r\n+b\r\n":     func(r redis.Reply) error { return r.EachPair(func(_, _ []byte) {}) },
		":7\r\n":                       func(r redis.Reply) error { return r.EachPair(func(_, _ []byte) {}) },
		"*2\r\n-WRONGTYPE x\r\n+a\r\n": func(r redis.Reply) error { _, err := r.Texts(); return err },
		"*1\r\n!11\r\nWRONGTYPE x\r\n": func(r redis.Reply) error { _, err := r.Texts(); return err },
	} {
		t.Run(strconv.Quote(reply), func(t *testing.T) {
			t.Parallel()
			h := newHostile(t, "GET", text(reply))
			c := connect(t, at(h.addr), redis.Options{})
			if err := check(do(t, c, "GET", "a")); err == nil {
				t.Error("command to the hostile server returned no error")
			}
		})
	}
}
