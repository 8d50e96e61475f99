-- Tables that are right in PostgreSQL and that a program easily serves wrongly.

create table wide_lists (id integer primary key, flakes bigint[], prices numeric[], grid bigint[]);
alter table wide_lists alter column grid type bigint[][];
insert into wide_lists values (1, '{9007199254740993,NULL,-1}', '{0.10000000000000000001,2.50}', '{{9007199254740993,1},{2,3}}');

create table text_keys (code text primary key, note text);
create table blank_keys (code char(4) primary key, note text);
create table citizens (id integer primary key, email text);
create unique index citizens_email on citizens (lower(email));
insert into citizens values (1, 'Ann@example.org');

create table lots (street text, number integer, area integer, primary key (street, number));
create table houses (id integer primary key, lot_street text, lot_number integer,
  foreign key (lot_street, lot_number) references lots (street, number));
insert into lots values ('Elm', 1, 500);
insert into houses values (1, 'Elm', 1);

create table keepers (id integer primary key);
create table cats (id integer primary key, keeper integer constraint keeper_fk references keepers);
create table dogs (id integer primary key, keeper integer constraint keeper_fk references keepers);
insert into keepers values (1);
insert into dogs values (1, 1);

create table vehicles (id serial primary key, name text);
create table trucks (axles integer) inherits (vehicles);

create table swallowing (id serial primary key, note text);
create rule swallow as on insert to swallowing do instead nothing;

create table picky (id serial primary key, note text);
create function refuse_boom() returns trigger language plpgsql as $$
begin
  if new.note = 'boom' then raise exception 'no %', new.note; end if;
  return new;
end $$;
create trigger refuse before insert on picky for each row execute function refuse_boom();

create domain few as text[] check (cardinality(value) < 3);
create table exacting (id serial primary key, opens time, lasts interval, host inet, price numeric(4, 2), tags few, shade bytea);

create table leaves (id integer primary key);
create materialized view never_filled as select id from leaves with no data;
create table renamed_later (id integer primary key, note text);

create table ages (id integer primary key, day date, at timestamp, zoned timestamptz);
insert into ages values
  (1, '0044-03-15 BC', '0001-01-01 00:00 BC', '0002-12-31 23:59:59.5Z BC'),
  (2, '9999-12-31', '10000-01-01 12:00', '12345-06-07 08:09:10.011Z'),
  (3, 'infinity', '-infinity', null),
  (4, '0001-01-01', '2026-01-31 12:00', '0476-09-04Z');
