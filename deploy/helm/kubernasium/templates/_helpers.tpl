{{- define "kubernasium.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* The name of the release's objects. 40 characters leave room for the component's name. */}}
{{- define "kubernasium.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "kubernasium.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "kubernasium.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* The templates below take a dict: root is the chart's scope, component the name, values those of the component. */}}

{{- define "kubernasium.componentName" -}}
{{- printf "%s-%s" (include "kubernasium.fullname" .root) .component }}
{{- end }}

{{- define "kubernasium.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kubernasium.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "kubernasium.metadata" -}}
name: {{ include "kubernasium.componentName" . }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "kubernasium.labels" . | nindent 2 }}
{{- end }}

{{- define "kubernasium.labels" -}}
{{ include "kubernasium.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "kubernasium.image" -}}
{{- $image := .values.image }}
{{- $name := $image.repository }}
{{- with .root.Values.imageRegistry }}{{ $name = printf "%s/%s" (trimSuffix "/" .) $name }}{{ end }}
{{- if $image.digest }}{{ printf "%s@%s" $name $image.digest }}{{ else }}{{ printf "%s:%s" $name (default .root.Chart.AppVersion $image.tag) }}{{ end }}
{{- end }}

{{/* Fields of a pod: its node constraints and its user. */}}
{{- define "kubernasium.pod" -}}
serviceAccountName: {{ include "kubernasium.componentName" . }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- if .values.topologySpreadConstraints }}
  {{- toYaml .values.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "kubernasium.selectorLabels" . | nindent 8 }}
  {{- end }}
{{- end }}

{{/* Fields of a container: its image and its security context. */}}
{{- define "kubernasium.container" -}}
image: {{ include "kubernasium.image" . | quote }}
imagePullPolicy: {{ .root.Values.imagePullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources:
  {{- toYaml .values.resources | nindent 2 }}
{{- end }}

{{- define "kubernasium.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "kubernasium.metadata" . | nindent 2 }}
automountServiceAccountToken: false # pods that need the token mount it
{{- end }}

{{- define "kubernasium.podDisruptionBudget" -}}
{{- if .values.podDisruptionBudget.enabled }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "kubernasium.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .values.podDisruptionBudget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "kubernasium.selectorLabels" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* Permits traffic to the pods on port, or none. With egress it permits connections to API server, DNS and Prometheus, otherwise none. */}}
{{- define "kubernasium.networkPolicy" -}}
{{- if .values.networkPolicy.enabled }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "kubernasium.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "kubernasium.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- if .port }}
  ingress:
    - from:
        {{- toYaml .values.networkPolicy.from | nindent 8 }}
      ports: [{protocol: TCP, port: {{ .port }}}]
  {{- else }}
  ingress: []
  {{- end }}
  {{- if .egress }}
  egress:
    {{- toYaml .values.networkPolicy.egress | nindent 4 }}
  {{- else }}
  egress: []
  {{- end }}
{{- end }}
{{- end }}

{{/* The ServiceMonitor; endpoint has the fields besides port and interval. */}}
{{- define "kubernasium.serviceMonitor" -}}
{{- if .values.serviceMonitor.enabled }}
{{- if not (.root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1") }}
{{- fail (printf "%s.serviceMonitor needs the Prometheus operator: the cluster has no monitoring.coreos.com/v1 (helm template: --api-versions monitoring.coreos.com/v1)" .component) }}
{{- end }}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include "kubernasium.componentName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "kubernasium.labels" . | nindent 4 }}
    {{- with .values.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "kubernasium.selectorLabels" . | nindent 6 }}
  endpoints:
    - port: {{ .portName }}
      path: /metrics
      interval: {{ .values.serviceMonitor.interval }}
      {{- toYaml .endpoint | nindent 6 }}
{{- end }}
{{- end }}

{{/* The volume with a token of the service account, which expires after an hour; the kubelet renews it. */}}
{{- define "kubernasium.tokenVolume" -}}
name: api-access
projected:
  defaultMode: 0440
  sources:
    - serviceAccountToken: {path: token, expirationSeconds: 3607}
    - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
    - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end }}

{{- define "kubernasium.tokenMount" -}}
name: api-access
mountPath: /var/run/secrets/kubernetes.io/serviceaccount
readOnly: true
{{- end }}
