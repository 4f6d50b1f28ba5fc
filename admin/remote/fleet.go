package remote

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"shuultuur/admin/nodes"
)

// Fleet returns the fleet as the gateway knows it.
func (c Client) Fleet(ctx context.Context) (f nodes.Fleet, err error) {
	err = c.ask(ctx, http.MethodGet, "/fleet", "", &f)
	return f, err
}

// offerTime bounds how long a desk may take to pack and store what it offers.
const offerTime = 10 * time.Minute

// Offer has the desk of a fleet offer what it decides by, to the first nodes or to all at once.
func (c Client) Offer(ctx context.Context, version, reason string, all bool) (f nodes.Fleet, err error) {
	form := url.Values{"version": {version}, "reason": {reason}}
	if all {
		form.Set("all", "yes")
	}
	err = c.askFor(ctx, http.MethodPost, "/fleet/offer", form.Encode(), offerTime, &f)
	return f, err
}

// Share has the desk give the bundle to more nodes, or offer the one before.
func (c Client) Share(ctx context.Context, more bool) (f nodes.Fleet, err error) {
	path := "/fleet/back"
	if more {
		path = "/fleet/more"
	}
	err = c.askFor(ctx, http.MethodPost, path, "", offerTime, &f)
	return f, err
}
