package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"

	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

// A list may have several addresses: what the first does not give, or gives and is refused, comes from
// the next. All of them have the same list, so settings, versions and what the list was taken for
// belong to the first.

// address returns the address that is asked.
func (src Source) address() string { return cmp.Or(src.mirror, src.URL) }

// here returns this address without what may be a secret.
func (src Source) here() string { return setting.WithoutCredentials(src.address()) }

// addresses returns src once for each of its addresses.
func (src Source) addresses() []Source {
	all := []Source{src}
	for _, at := range src.Mirrors {
		next := src
		next.mirror = at
		if src.besides {
			next.Signature = besides(at, ".minisig")
		}
		all = append(all, next)
	}
	return all
}

// checkHeaders checks header fields for requests.
func checkHeaders(fields map[string]string) error {
	for name, value := range fields {
		switch key := http.CanonicalHeaderKey(name); {
		case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
			return fmt.Errorf("%q is not a header field", name)
		case slices.Contains(ownFields, key) || strings.HasPrefix(key, "If-") || strings.HasPrefix(key, "Proxy-"):
			return fmt.Errorf("%q is for the gateway to send", name)
		}
	}
	return nil
}

// ownFields are header fields that the settings of a list must not give.
var ownFields = []string{"Accept-Encoding", "Connection", "Content-Length", "Host", "Range", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// onlyOurs takes the fields of the settings, which may be secrets, out of a request to another server.
func onlyOurs(h http.Header) {
	for name := range h {
		if name != "User-Agent" && name != "Accept-Encoding" && !strings.HasPrefix(name, "If-") {
			delete(h, name)
		}
	}
}

// A refusal is a version that was refused for its content. While its server says that it is unchanged,
// and nothing by which it is judged has changed, it is not fetched again.
type refusal struct {
	ETag, LastModified string
	Judged             string // digest of what it was judged by
	Problem            string
}

// judged returns a digest of everything besides a version's content by which it is judged.
func (it *Item) judged(old *Version) string {
	was := ""
	if old != nil {
		was = old.SHA256
	}
	src := it.Source
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %s %s %d %v", it.How, was, release.Version(), src.Minimum, src.Shrink)))[:32]
}

// refuse notes that an address has a version that is refused.
func (st *State) refuse(at string, d download, judged string, why error) {
	if d.ETag+d.LastModified == "" {
		return
	}
	if st.Refused == nil {
		st.Refused = map[string]refusal{}
	}
	st.Refused[at] = refusal{d.ETag, d.LastModified, judged, openError{why}.Error()}
}

// busy notes that an address does not want to be asked for a time.
func (st *State) busy(at string, err error) {
	if b := (busyError{}); errors.As(err, &b) {
		if st.Busy == nil {
			st.Busy = map[string]time.Time{}
		}
		st.Busy[at] = time.Now().UTC().Add(b.after)
	}
}

// isBusy reports whether an address does not want to be asked now.
func (st *State) isBusy(at string) bool {
	left := time.Until(st.Busy[at])
	return left > 0 && left <= pauseAtMost
}

// isFinal reports whether asking again at once cannot help.
func isFinal(err error) bool {
	var busy busyError
	return errors.As(err, new(permanentError)) || errors.As(err, &busy) || isForged(err)
}

// newer fetches a version into f and tries it, or returns nil if the one in use is the newest. It asks
// one address after the other. With again it may take what was looked at.
func (s *Store) newer(ctx context.Context, name string, it Item, st *State, f *os.File, again bool) (v *Version, d download, err error) {
	if again {
		if d, ok := s.reusePreview(name, it.Source, st, f); ok {
			v, err = s.judge(ctx, name, it, st, f, d)
			return v, d, err
		}
	}
	all := it.Source.addresses()
	if free := slices.DeleteFunc(slices.Clone(all), func(at Source) bool { return st.isBusy(at.here()) }); len(all) > 1 && len(free) > 0 {
		all = free
	}
	var final error // of addresses that are not asked again
	err = s.retry(ctx, func(ctx context.Context) error {
		var failed error
		left := all[:0:0]
		for _, at := range all {
			from := it
			from.Source = at
			v, d, err = s.newerFrom(ctx, name, from, st, f)
			if err == nil || ctx.Err() != nil {
				return err
			}
			if len(it.Source.Mirrors) > 0 {
				st.busy(at.here(), err)
			}
			if isFinal(err) {
				final = both(final, err)
				continue
			}
			left = append(left, at)
			failed = both(failed, err)
		}
		all = left
		return both(failed, final)
	})
	return v, d, err
}

// both returns an error that says what two addresses have answered, and is of the kind of the first.
func both(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return fmt.Errorf("%w; %v", a, b)
}

// newerFrom is newer from one address.
func (s *Store) newerFrom(ctx context.Context, name string, it Item, st *State, f *os.File) (*Version, download, error) {
	at, old := it.Source.here(), st.inUse()
	asked := validators{}
	refused, known := st.Refused[at]
	known = known && refused.Judged == it.judged(old)
	lost := old != nil && s.damaged(name, old) != nil
	switch {
	case time.Since(st.Whole).Abs() > wholeAfter:
	case known:
		asked = validators{refused.ETag, refused.LastModified}
	case !lost && cmp.Or(st.From, st.URL) == at && s.mayStayUnchanged(name, it.Source, st):
		asked = validators{st.ETag, st.LastModified}
	}
	d, err := s.fetch(ctx, name, it.Source, asked, f)
	switch {
	case err != nil:
		return nil, d, fmt.Errorf("fetching it: %w", err)
	case d.unchanged && known:
		return nil, d, permanentError{fmt.Errorf("%s; its server still has this version", refused.Problem)}
	case d.unchanged:
		return nil, d, nil
	}
	if d, err = s.include(ctx, name, it, d, f); err != nil {
		return nil, d, err
	}
	st.Whole = time.Now().UTC()
	v, err := s.judge(ctx, name, it, st, f, d)
	if err != nil && !isFinal(err) {
		err = permanentError{err} // the same would come again
	}
	return v, d, err
}

// judge verifies and tries what was fetched. It returns nil if that is the version in use.
func (s *Store) judge(ctx context.Context, name string, it Item, st *State, f *os.File, d download) (*Version, error) {
	src, old := it.Source, st.inUse()
	if err := s.verify(ctx, src, d); err != nil {
		return nil, fmt.Errorf("fetching it from %s: %w", src.here(), err)
	}
	if err := s.verifySignature(ctx, src, f); err != nil {
		return nil, fmt.Errorf("fetching it from %s: %w", src.here(), err)
	}
	judged := it.judged(old)
	v, err := s.tryVersion(ctx, name, it, st, f, d)
	switch {
	case ctx.Err() != nil || errors.As(err, new(syscall.Errno)): // which says nothing about the content
	case err != nil:
		st.refuse(src.here(), d, judged, err)
	default:
		delete(st.Refused, src.here())
		if now := cmp.Or(v, old); now != nil && src.key != nil && now.SHA256 == d.SHA256 {
			now.Key = src.key.text
		}
	}
	return v, err
}

// Owned reports whether only an owner may change the settings: with header fields, which may be secrets,
// another address would learn them.
func (c Config) Owned() bool { return len(c.Headers) > 0 }
