package clients

import "shuultuur/filter"

// Quotas are the remainders of a client's quotas.
type Quotas struct {
	Policy string           `json:"policy"` // policy; "" if there is none
	User   string           `json:"user"`
	Quotas []filter.Balance `json:"quotas"`
}
