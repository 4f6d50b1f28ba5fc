//go:build small

package admin

// profileRoutes is empty: the small build takes no profiles.
func profileRoutes() []route { return nil }
