//go:build small

package booth

import (
	"context"
	"crypto/tls"
	"net"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/release"
	"shuultuur/vote"
)

// A Booth exists in the full build only; Open returns none.
type Booth struct{}

// Open returns an error: this build lacks votes.
func Open(context.Context, Config, Parts) (*Booth, error) { return nil, release.Lacks("votes") }

// The methods mirror those of the full build.

func (b *Booth) Erase(context.Context, *vote.Person, bool) (int64, error) { return 0, nil }

func (b *Booth) ForwardsTo() string { return "" }

func (b *Booth) Desk() *vote.Desk { return nil }

func (b *Booth) Addrs() []net.Addr { return nil }

func (b *Booth) Token(*filter.Transaction) string { return "" }

func (b *Booth) Answer(context.Context, *filter.Transaction, *message.Request, string, []byte) (int, string, []byte, []string) {
	return 0, "", nil, nil
}

// certificate reads nothing, because Open refuses votes.
func certificate(*KeyPair) (*tls.Config, error) { return nil, nil }

// checkStore accepts every URL, because Open refuses votes.
func checkStore(string) error { return nil }
