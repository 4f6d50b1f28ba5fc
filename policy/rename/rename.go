// Package rename lets what was used of quotas count on when a policy gets another name: whoever changes a
// name changes no more than that.
//
// A file has the policies with quotas that were in use last, so that a name may also change while the
// program does not run. One that covers the same clients as one that is no longer there is that policy.
package rename

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"time"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/setting"
	"shuultuur/policy"
)

// Names are the names of policies with quotas.
type Names struct {
	file string // "" for none
	kept kept
}

// kept is what the file has.
type kept struct {
	Covers  map[string]string `json:"covers"`            // whom each policy covers, as a digest
	Day     string            `json:"day"`               // the day for which the next counts
	Counted map[string]string `json:"counted,omitempty"` // the names under which policies count that have others
}

// Open reads the file, which may not be there yet.
func Open(file string) (*Names, error) {
	n := &Names{file: file}
	if file == "" {
		return n, nil
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &n.kept)
	}
	if err != nil {
		n.kept = kept{}
		return n, fmt.Errorf("reading the names of policies with quotas: %w", err)
	}
	return n, nil
}

// Use notes the policies that are in use from now on, and tells decided under which names they count.
func (n *Names) Use(all policy.Config, now time.Time, decided *policy.Decisions) error {
	next := kept{Covers: map[string]string{}, Day: now.Format(time.DateOnly), Counted: map[string]string{}}
	for i := range all {
		if p := &all[i]; len(p.Quotas) > 0 {
			next.Covers[p.Name] = setting.Digest([]any{p.Networks, p.Users, p.Groups, p.Unknown, p.Schedule})
		}
	}
	was := n.kept
	if was.Day != next.Day {
		was.Counted = nil
	}
	for name, whom := range next.Covers {
		as, known := was.Counted[name]
		if _, there := was.Covers[name]; !there {
			as, known = "", false
			if before := only(was.Covers, next.Covers, whom); before != "" && only(next.Covers, was.Covers, whom) == name {
				as, known = cmp.Or(was.Counted[before], before), true
			}
		}
		if known && as != name {
			next.Counted[name] = as
		}
	}
	for _, as := range next.Counted {
		if _, there := next.Covers[as]; there && next.Counted[as] == "" {
			next.Counted[as] = as + "\n" // a new policy has the name that another had
		}
	}
	names := map[[2]string]string{}
	for name, as := range next.Counted {
		names[[2]string{next.Day, name}] = as
	}
	decided.SetCounted(names)
	same := was.Day == next.Day && maps.Equal(n.kept.Covers, next.Covers) && maps.Equal(n.kept.Counted, next.Counted)
	n.kept = next
	if same || n.file == "" {
		return nil
	}
	b, err := json.Marshal(next)
	if err == nil {
		err = atomicfile.WriteBytes(n.file, 0o600, b)
	}
	if err != nil {
		return fmt.Errorf("keeping the names of policies with quotas: %w", err)
	}
	return nil
}

// only returns the policy that covers somebody among those of some that others do not have, "" unless it is
// the only one.
func only(some, others map[string]string, whom string) (name string) {
	for n, covers := range some {
		if _, there := others[n]; there || covers != whom {
			continue
		}
		if name != "" {
			return ""
		}
		name = n
	}
	return name
}
