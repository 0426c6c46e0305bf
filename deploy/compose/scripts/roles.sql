-- The database and its roles, made at the first start. PostgreSQL does not log a statement that fails: it has a password in it.
set log_min_error_statement = panic;
\set VERBOSITY terse
\set owner_password `cat /run/service/serviced_owner-password`
\set password `cat /run/service/serviced-password`
create role serviced_owner login password :'owner_password';
create role serviced login password :'password';
create database service owner serviced_owner;
