package gateway

import (
	"context"
	"path/filepath"

	"shuultuur/admin"
	"shuultuur/admin/alert"
	"shuultuur/admin/mail"
)

// newMail makes what sends mail.
func newMail(_ context.Context, b *builder) (*mail.Sender, error) {
	return mail.New(*b.settings.Mail)
}

func newAlerts(_ context.Context, b *builder) (*alert.Watching, error) {
	w, err := alert.New(*b.settings.Alerts, b.mail, b.g.texts)
	if err != nil {
		return nil, err
	}
	parts := alert.Parts{Checks: b.checks.Checks, Key: b.data.Key, Log: b.log}
	if !b.trial() {
		parts.File = filepath.Join(string(b.settings.Data), "alerts.json")
	}
	if b.old != nil {
		parts.Previous = b.old.alerts
	}
	return alert.Start(w, parts)
}

// watching are the parts of the admin address by which people are told.
func (g *Gateway) watching(*builder) admin.Watching {
	return admin.Watching{Alerts: func() *alert.Desk {
		if e := g.engine.Load(); e != nil && e.alerts != nil {
			return e.alerts.Desk
		}
		return nil
	}, Pictures: &g.pictures}
}
