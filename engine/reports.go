package engine

import (
	"context"
	"path/filepath"

	"shuultuur/admin/report"
)

func newReports(_ context.Context, b *builder) (*report.Sending, error) {
	r := &report.Sending{Schedules: b.Settings.Reports, Mail: b.Mail, Texts: b.host.Texts, File: filepath.Join(string(b.Settings.Data), "reports.json"), Log: b.log}
	if h := b.host; h != nil {
		r.Source = func() report.Source {
			if s := h.InUse().Events.Reader(); s != nil {
				return s
			}
			return nil
		}
		r.Groups = h.GroupsOf
	}
	return r, r.Check()
}
