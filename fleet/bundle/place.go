package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/objectstore"
	"shuultuur/lib/setting"
)

// A Place is where bundles are offered.
type Place interface {
	// Get opens what is offered under a name. The error is [fs.ErrNotExist] if that is nothing.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	String() string
}

// An Offer is a place at which a desk puts bundles.
type Offer interface {
	Place
	Put(ctx context.Context, name string, data []byte) error
}

// Store is how an object store is reached.
type Store struct {
	// Endpoint, Region, Access and Secret are the URL of the object store, its region, and an
	// access key with its secret.
	Endpoint string `yaml:"endpoint"`
	Region   string `yaml:"region"`
	Access   string `yaml:"access" secret:"yes"`
	Secret   string `yaml:"secret" secret:"yes"`
}

// openPlace opens a place: a folder, an https:// address or s3://bucket/prefix.
func openPlace(at string, s Store, token string, client *http.Client) (Place, error) {
	switch scheme, rest, ok := strings.Cut(at, "://"); {
	case !ok:
		return Folder(at), nil
	case scheme == "s3":
		b, err := objectstore.Open(objectstore.Config{To: rest, Endpoint: s.Endpoint, Region: s.Region, Key: s.Access, Secret: s.Secret})
		if err != nil {
			return nil, renamed(err, "key", "access")
		}
		return bucket{b}, nil
	case scheme == "https" || scheme == "http":
		u, err := url.Parse(at)
		if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf(`%q is not an address; write it like "https://desk.example:8081/bundles"`, at)
		}
		if token != "" && scheme != "https" {
			return nil, setting.At("token", errors.New("it would be readable on the way: write an https:// address"))
		}
		return &web{base: strings.TrimSuffix(at, "/") + "/", token: token, client: client}, nil
	default:
		return nil, fmt.Errorf("%q is no place of bundles: name a folder, an https:// address or s3://bucket/prefix", at)
	}
}

// renamed names the key of a mistake as these settings do.
func renamed(err error, from, to string) error {
	if e, ok := errors.AsType[*setting.Error](err); ok && e.Key == from {
		return setting.At(to, e.Err)
	}
	return err
}

// A Folder is a place on a disk, which may be one that is shared.
type Folder string

// Get implements [Place].
func (f Folder) Get(_ context.Context, name string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Open(filepath.FromSlash(name))
}

// Put implements [Offer].
func (f Folder) Put(_ context.Context, name string, data []byte) error {
	file := filepath.Join(string(f), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return atomicfile.WriteBytes(file, 0o640, data)
}

func (f Folder) String() string { return string(f) }

type bucket struct{ *objectstore.Bucket }

// Get implements [Place].
func (b bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := b.Bucket.Get(ctx, name)
	if errors.Is(err, objectstore.ErrAbsent) {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return r, err
}

// Put implements [Offer].
func (b bucket) Put(ctx context.Context, name string, data []byte) error {
	return b.Bucket.Put(ctx, name, "application/octet-stream", data)
}

// A web is a place on a server.
type web struct {
	base, token string
	client      *http.Client
}

// silence is how long a server may send nothing.
const silence = 30 * time.Second

// Get implements [Place].
func (w *web) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+name, nil)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if w.token != "" {
		q.Header.Set("Authorization", "Bearer "+w.token)
	}
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("%s sent nothing for %v", w.base, silence)) })
	res, err := w.client.Do(q)
	if err != nil {
		quiet.Stop()
		if why := context.Cause(ctx); why != nil {
			err = why
		}
		cancel(nil)
		return nil, err
	}
	body := &patient{ReadCloser: res.Body, quiet: quiet, ctx: ctx, cancel: cancel}
	switch res.StatusCode {
	case http.StatusOK:
		return body, nil
	case http.StatusNotFound:
		err = fs.ErrNotExist
	case http.StatusUnauthorized, http.StatusForbidden:
		err = fmt.Errorf("%s; give fleet: bundles: token of somebody who may see bundles there", res.Status)
	default:
		err = errors.New(res.Status)
	}
	body.Close()
	return nil, fmt.Errorf("%s%s: %w", w.base, name, err)
}

func (w *web) String() string { return setting.WithoutCredentials(w.base) }

// A patient body fails when its server is silent.
type patient struct {
	io.ReadCloser
	quiet  *time.Timer
	ctx    context.Context //nolint:containedctx // of the request, whose cause is the error
	cancel context.CancelCauseFunc
}

func (p *patient) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.quiet.Reset(silence)
	if err != nil && !errors.Is(err, io.EOF) {
		if why := context.Cause(p.ctx); why != nil {
			err = why
		}
	}
	return n, err
}

func (p *patient) Close() error {
	p.quiet.Stop()
	err := p.ReadCloser.Close()
	p.cancel(nil)
	return err
}

// fetch reads what a place offers under a name, at most a number of bytes.
func fetch(ctx context.Context, from Place, name string, most int64) ([]byte, error) {
	r, err := from.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return b, err
}
