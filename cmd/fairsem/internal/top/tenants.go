package top

import (
	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// tenants is the table of the tenants of a name.
type tenants struct {
	list[tenant]
	nameWidth int    // of the widest
	hidden    string // how many are not shown
}

// tenant is a row of the table.
type tenant struct{ fairsem.Tenant }

func (t tenant) key() string { return t.Name }

func (n *tenants) update(of inspect.Tenants) {
	var all []tenant
	n.nameWidth, n.hidden = labelLeast, of.Hidden()
	for _, t := range of.All {
		all = append(all, tenant{t})
		n.nameWidth = max(n.nameWidth, text.Columns(text.Word(t.Name)))
	}
	n.set(all)
}

func (n *tenants) view(width int, p paint) string {
	return n.draw([]column[tenant]{
		{title: "TENANT", gap: 1, min: labelLeast, max: min(n.nameWidth, labelMost), text: func(t tenant) string { return text.Word(t.Name) }},
		{title: "USED", right: true, gap: 2, min: 6, text: func(t tenant) string { return brief(t.Used) }},
		{title: "WAITING", right: true, gap: 2, min: 7, rank: 1, text: func(t tenant) string { return brief(t.Waiting) }},
		{title: "OLDEST", right: true, gap: 2, min: 7, rank: 2, text: func(t tenant) string { return render.TenantWait(t.Tenant) }},
		{title: "SHARE", right: true, gap: 2, min: 6, rank: 3, text: func(t tenant) string { return brief(t.Share) }},
		{title: "LIMIT", right: true, gap: 2, min: 6, rank: 4, text: func(t tenant) string {
			if t.Limit == 0 {
				return "-"
			}
			return brief(t.Limit)
		}},
	}, width, p)
}
