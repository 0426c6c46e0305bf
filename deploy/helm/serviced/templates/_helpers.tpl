{{- define "serviced.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of all objects. It leaves room for the suffix of the migration. */}}
{{- define "serviced.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "serviced.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels of every object. Takes a dictionary of `context` and `component`. */}}
{{- define "serviced.labels" -}}
{{ include "serviced.selector" . }}
app.kubernetes.io/version: {{ .context.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .context.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* The labels by which pods are selected: those of the nodes and those of the migration differ. */}}
{{- define "serviced.selector" -}}
app.kubernetes.io/name: {{ include "serviced.name" .context }}
app.kubernetes.io/instance: {{ .context.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "serviced.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses values that are valid one by one, but not together. */}}
{{- define "serviced.check" -}}
{{- if ne (empty .Values.config.mail.user) (empty .Values.secrets.mailPassword.name) -}}
{{- fail "config.mail.user and secrets.mailPassword.name belong together: set both, or neither" -}}
{{- end -}}
{{- if ne (empty .Values.config.mail.second_user) (empty .Values.secrets.secondMailPassword.name) -}}
{{- fail "config.mail.second_user and secrets.secondMailPassword.name belong together: set both, or neither" -}}
{{- end -}}
{{- if and .Values.migration.enabled (not .Values.secrets.owner.name) -}}
{{- fail "secrets.owner.name is required: the Secret with the URL of the database for the role that owns the schema" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.publicFrom) -}}
{{- fail "networkPolicy.publicFrom is required: list who reaches the public port, such as the pods of the ingress controller" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is larger than autoscaling.maxReplicas" -}}
{{- end -}}
{{- end -}}

{{/* The value of a setting as text. A list is joined by commas; yes and no are booleans in YAML unless they are quoted. */}}
{{- define "serviced.settingText" -}}
{{- if kindIs "slice" . -}}
{{ join "," . }}
{{- else if kindIs "bool" . -}}
{{ ternary "yes" "no" . }}
{{- else if and (kindIs "float64" .) (eq . (floor .)) -}}
{{ int64 . }}
{{- else -}}
{{ toString . }}
{{- end -}}
{{- end -}}

{{/* The settings as environment variables. Kubernetes replaces $(NAME) in them, so each $ is doubled. */}}
{{- define "serviced.settings" -}}
- name: SERVICED_HTTP_LISTEN
  value: {{ printf "%s:8080" .Values.listenAddress | quote }}
- name: SERVICED_HTTP_OPS_LISTEN
  value: {{ printf "%s:9090" .Values.listenAddress | quote }}
{{- range $section, $content := .Values.config }}
{{- if kindIs "map" $content }}
{{- range $name, $value := $content }}
- name: {{ printf "SERVICED_%s_%s" $section $name | upper }}
  value: {{ include "serviced.settingText" $value | replace "$" "$$" | quote }}
{{- end }}
{{- else }}
- name: {{ printf "SERVICED_%s" $section | upper }}
  value: {{ include "serviced.settingText" $content | replace "$" "$$" | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
The secrets that a pod gets, as a JSON list. Takes a dictionary of `context` and `database`: the Secret with the URL of the
database, which is another one for the nodes than for the migration.
*/}}
{{- define "serviced.secrets" -}}
{{- $secrets := .context.Values.secrets -}}
{{- $all := list
  (dict "volume" "database" "variable" "SERVICED_DATABASE_URL_FILE" "secret" .database)
  (dict "volume" "root-keys" "variable" "SERVICED_SECRETS_ROOT_KEYS_FILE" "secret" $secrets.rootKeys)
  (dict "volume" "mail-password" "variable" "SERVICED_MAIL_PASSWORD_FILE" "secret" $secrets.mailPassword)
  (dict "volume" "second-mail-password" "variable" "SERVICED_MAIL_SECOND_PASSWORD_FILE" "secret" $secrets.secondMailPassword)
  (dict "volume" "traces-token" "variable" "SERVICED_TRACES_TOKEN_FILE" "secret" $secrets.tracesToken)
  (dict "volume" "feed-urls" "variable" "SERVICED_DATABASE_FEED_URLS_FILE" "secret" $secrets.feedUrls)
-}}
{{- $given := list -}}
{{- range $all }}{{ if .secret.name }}{{ $given = append $given . }}{{ end }}{{ end -}}
{{- toJson $given -}}
{{- end -}}

{{/*
The specification of a pod, without what nodes alone have. Takes a dictionary of `context`, `database` (see
serviced.secrets), `files`, `command`, and `container`: further fields of the container.
*/}}
{{- define "serviced.podSpec" -}}
{{- $values := .context.Values -}}
{{- $secrets := include "serviced.secrets" . | fromJsonArray -}}
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
automountServiceAccountToken: false
# A Service called serviced would otherwise give the pod variables such as SERVICED_PORT.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  {{- with $values.podSecurityContext }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: serviced
    image: {{ include "serviced.image" .context | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args: [{{ .command }}]
    env:
      {{- include "serviced.settings" .context | nindent 6 }}
      {{- range $secrets }}
      - name: {{ .variable }}
        value: {{ printf "/etc/serviced/secrets/%s/%s" .volume .secret.key | quote }}
      {{- end }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
    {{- toYaml .container | nindent 4 }}
    volumeMounts:
      {{- range $secrets }}
      - name: {{ .volume }}
        mountPath: /etc/serviced/secrets/{{ .volume }}
        readOnly: true
      {{- end }}
      {{- range $name, $_ := .files }}
      - name: files-{{ $name }}
        mountPath: /etc/serviced/files/{{ $name }}
        readOnly: true
      {{- end }}
volumes:
  {{- range $secrets }}
  - name: {{ .volume }}
    secret:
      secretName: {{ .secret.name }}
      defaultMode: 0440
      items:
        - key: {{ .secret.key }}
          path: {{ .secret.key }}
  {{- end }}
  {{- range $name, $source := .files }}
  - name: files-{{ $name }}
    {{- if $source.secret }}
    secret:
      secretName: {{ $source.secret }}
      defaultMode: 0440
    {{- else }}
    configMap:
      name: {{ $source.configMap }}
      defaultMode: 0444
    {{- end }}
  {{- end }}
{{- end -}}
