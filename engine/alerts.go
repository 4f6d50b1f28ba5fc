package engine

import (
	"context"
	"path/filepath"

	"shuultuur/admin/alert"
	"shuultuur/admin/mail"
)

// newMail makes the sender of mail.
func newMail(_ context.Context, b *builder) (*mail.Sender, error) {
	return mail.New(*b.Settings.Mail)
}

func newAlerts(_ context.Context, b *builder) (*alert.WatchSet, error) {
	w, err := alert.New(*b.Settings.Alerts, b.Mail, b.host.Texts)
	if err != nil {
		return nil, err
	}
	parts := alert.Parts{Checks: b.Checks.Checks, Key: b.Data.Key, Log: b.log}
	if !b.trial() {
		parts.File = filepath.Join(string(b.Settings.Data), "alerts.json")
	}
	if b.old != nil {
		parts.Previous = b.old.Alerts
	}
	return alert.Start(w, parts)
}
