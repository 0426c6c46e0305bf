-- How many bytes a content counts for: the length of its fields as text. Kept with the row, because quotas and pages ask
-- for it of rows whose fields they do not read.
alter table contents add column bytes bigint not null generated always as (octet_length(fields::text)) stored;
