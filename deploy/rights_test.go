package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A right is one verb on one resource, and on one object where the rule names it.
type right struct{ group, resource, verb, name string }

func (r right) String() string {
	return strings.TrimSpace(r.verb + " " + r.resource + "." + r.group + " " + r.name)
}

// refusal is what the API server answers, and a log has to show, when the right is missing.
func (r right) refusal() string {
	return fmt.Sprintf("cannot %s resource %q in API group %q", r.verb, r.resource, r.group)
}

func (r right) rule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.resource}, Verbs: []string{r.verb}}
	if r.name != "" {
		rule.ResourceNames = []string{r.name}
	}
	return rule
}

// A role is a Role or a ClusterRole of the chart.
type role struct {
	namespace, name string // namespace "": a ClusterRole
	rights          []right
}

// roles returns the roles that the chart has made for a component of the installation in ns.
func (c *cluster) roles(t *testing.T, ns, component string) (all []role) {
	t.Helper()
	list := metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component}
	wide, err := c.client.RbacV1().ClusterRoles().List(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range wide.Items {
		if strings.HasPrefix(r.Name, ns+"-") {
			all = append(all, role{"", r.Name, rightsOf(r.Rules)})
		}
	}
	of, err := c.client.RbacV1().Roles("").List(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range of.Items {
		if r.Annotations["meta.helm.sh/release-namespace"] == ns {
			all = append(all, role{r.Namespace, r.Name, rightsOf(r.Rules)})
		}
	}
	return all
}

func rightsOf(rules []rbacv1.PolicyRule) (all []right) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						all = append(all, right{group, resource, verb, name})
					}
				}
			}
		}
	}
	return all
}

// grant gives the role these rights and no others.
func (c *cluster) grant(t *testing.T, r role, rights []right) {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, one := range rights {
		rules = append(rules, one.rule())
	}
	ctx := context.Background() // also at the test's end
	var err error
	if r.namespace == "" {
		var object *rbacv1.ClusterRole
		if object, err = c.client.RbacV1().ClusterRoles().Get(ctx, r.name, metav1.GetOptions{}); err == nil {
			object.Rules = rules
			_, err = c.client.RbacV1().ClusterRoles().Update(ctx, object, metav1.UpdateOptions{})
		}
	} else {
		var object *rbacv1.Role
		if object, err = c.client.RbacV1().Roles(r.namespace).Get(ctx, r.name, metav1.GetOptions{}); err == nil {
			object.Rules = rules
			_, err = c.client.RbacV1().Roles(r.namespace).Update(ctx, object, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// may asks the API server whether the account has the right in a namespace.
func (c *cluster) may(t *testing.T, account, namespace string, r right) bool {
	t.Helper()
	resource, sub, _ := strings.Cut(r.resource, "/")
	review, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: account, Groups: []string{"system:serviceaccounts", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: r.verb, Group: r.group, Resource: resource, Subresource: sub, Name: r.name},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// wantEachRight takes each right away that the chart gives the component, one at a time, and sees that the
// program, started with prepare before it, logs which right it lacks: none is superfluous, and each is named.
func (c *cluster) wantEachRight(t *testing.T, ns, component string, prepare func(t *testing.T)) {
	t.Helper()
	account := "system:serviceaccount:" + ns + ":kubernasium-" + component
	roles := c.roles(t, ns, component)
	if len(roles) == 0 {
		t.Fatalf("the chart made no role for %s", component)
	}
	for _, role := range roles {
		for i, missing := range role.rights {
			t.Run(missing.String(), func(t *testing.T) {
				c.grant(t, role, slices.Delete(slices.Clone(role.rights), i, i+1))
				defer c.grant(t, role, role.rights)
				eventually(t, "the right is gone", func() bool { return !c.may(t, account, role.namespace, missing) })
				prepare(t)
				var env []string
				if missing.verb == "list" {
					env = append(env, "KUBE_FEATURE_WatchListClient=false") // as where the API server does not stream lists
				}
				p := c.run(t, ns, component, env...)
				eventually(t, "the log has "+missing.refusal(), func() bool {
					return strings.Contains(strings.ReplaceAll(p.log.String(), `\"`, `"`), missing.refusal()) // slog quotes errors
				})
				p.stop()
			})
		}
	}
}

// A binding is a RoleBinding or a ClusterRoleBinding.
type binding struct {
	name     string
	subjects []rbacv1.Subject
}

// bindings returns all of the cluster.
func (c *cluster) bindings(t *testing.T) (all []binding) {
	t.Helper()
	cluster, err := c.client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range cluster.Items {
		all = append(all, binding{b.Name, b.Subjects})
	}
	of, err := c.client.RbacV1().RoleBindings("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range of.Items {
		all = append(all, binding{b.Namespace + "/" + b.Name, b.Subjects})
	}
	return all
}
