// Package actions translates actions into recommendations, and recommendations into the nearest actions, for the
// environments of vertical pod autoscaling. An action gives amounts, factors of other amounts, a request and a limit of
// each resource, or corrections of another recommendation.
package actions
