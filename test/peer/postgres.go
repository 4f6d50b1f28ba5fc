package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoPostgres reports that no PostgreSQL is installed.
var ErrNoPostgres = errors.New("PostgreSQL is not installed, or there is no user postgres to run it as")

// A Postgres is a PostgreSQL server for a test.
type Postgres struct {
	program string
	dir     string
	port    string
	as      *syscall.Credential // the server refuses to run as root
	cmd     *exec.Cmd
}

// NewPostgres starts a server, or skips the test if none is installed.
func NewPostgres(t testing.TB) *Postgres {
	t.Helper()
	NotQuick(t, "PostgreSQL")
	p, err := StartPostgres()
	if errors.Is(err, ErrNoPostgres) {
		t.Skip(err, "; test/setup.sh installs it")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// StartPostgres starts a server with its own data folder.
func StartPostgres() (p *Postgres, err error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return nil, ErrNoPostgres
	}
	p = &Postgres{program: found[len(found)-1]}
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, ErrNoPostgres
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		p.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	if p.dir, err = os.MkdirTemp("", "postgres"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if p.as != nil {
		if err := os.Chown(p.dir, int(p.as.Uid), int(p.as.Gid)); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, p.port, _ = net.SplitHostPort(l.Addr().String())
	l.Close()
	init := p.command(filepath.Join(filepath.Dir(p.program), "initdb"), "-D", p.dir+"/data", "-U", "shuultuur", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
	if out, err := init.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return p, p.Start()
}

func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = withParent()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential, cmd.SysProcAttr.Setpgid = p.as, true
	return cmd
}

// Start starts the server and waits until it answers.
func (p *Postgres) Start() error {
	os.Remove(p.dir + "/data/postmaster.pid")
	p.cmd = p.command(p.program, "-D", p.dir+"/data", "-p", p.port, "-k", p.dir, "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=64MB")
	if err := p.cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		c, err := pgx.Connect(context.Background(), p.URL("postgres"))
		if err == nil {
			return c.Close(context.Background())
		}
		if time.Now().After(end) {
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		}
	}
}

// Kill kills the server as a crash would.
func (p *Postgres) Kill() {
	if p.cmd != nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// Close kills the server and removes its folder.
func (p *Postgres) Close() {
	p.Kill()
	os.RemoveAll(p.dir)
}

// URL is that of a database.
func (p *Postgres) URL(database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User("shuultuur"), Host: "127.0.0.1:" + p.port, Path: "/" + database}).String()
}

// Database makes an empty database and returns its URL.
func (p *Postgres) Database(name string) (string, error) {
	c, err := pgx.Connect(context.Background(), p.URL("postgres"))
	if err != nil {
		return "", err
	}
	_, err = c.Exec(context.Background(), "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	return p.URL(name), errors.Join(err, c.Close(context.Background()))
}
