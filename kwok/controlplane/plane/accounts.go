package plane

import "slices"

const serviceAccount = "ServiceAccount" // the admission plugin that mounts tokens into pods

// admissionControllers lists the controllers that admission plugins need, either to work at all or so that
// their objects can be deleted.
var admissionControllers = map[string][]string{
	serviceAccount:                 {"serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller"},
	"ResourceQuota":                {"resourcequota-controller"},
	"StorageObjectInUseProtection": {"persistentvolume-protection-controller", "persistentvolumeclaim-protection-controller"},
}

// withServiceAccounts adds the admission of service accounts to a configuration with RBAC, because roles are
// bound to service accounts. Without controllers no namespace gets an account, and the plugin would reject
// every pod.
func withServiceAccounts(c Config) Config {
	if c.RBAC && slices.Contains(c.Components, ControllerManager) && !slices.Contains(c.Admission, serviceAccount) {
		c.Admission = append(slices.Clone(c.Admission), serviceAccount)
	}
	return c
}

// controllersFor returns the controllers of c, plus those that its admission plugins and RBAC need, unless c
// disables them.
func controllersFor(c Config) []string {
	all := slices.Clone(c.Controllers)
	add := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(all, n) && !slices.Contains(all, "-"+n) {
				all = append(all, n)
			}
		}
	}
	if c.RBAC {
		add("clusterrole-aggregation-controller") // fills the roles admin, edit and view
	}
	for _, a := range c.Admission {
		add(admissionControllers[a]...)
	}
	return all
}
