create type mpaa_rating as enum ('G', 'PG', 'PG-13', 'R', 'NC-17');
create domain year as integer constraint year_check check (value >= 1901 and value <= 2155);

create table language (
  language_id serial primary key,
  name character(20) not null,
  last_update timestamp with time zone default now() not null
);
create table actor (
  actor_id serial primary key,
  first_name text not null,
  last_name text not null,
  last_update timestamp with time zone default now() not null
);
create index idx_actor_last_name on actor (last_name);
create table category (
  category_id serial primary key,
  name text not null,
  last_update timestamp with time zone default now() not null
);
create table film (
  film_id serial primary key,
  title text not null,
  description text,
  release_year year,
  language_id integer not null references language (language_id) on update cascade on delete restrict,
  original_language_id integer references language (language_id) on update cascade on delete restrict,
  rental_duration smallint default 3 not null,
  rental_rate numeric(4, 2) default 4.99 not null,
  length smallint,
  replacement_cost numeric(5, 2) default 19.99 not null,
  rating mpaa_rating default 'G'::mpaa_rating,
  last_update timestamp with time zone default now() not null,
  special_features text[],
  fulltext tsvector not null
);
comment on table film is 'What can be rented';
comment on column film.length is 'Minutes';
create index film_fulltext_idx on film using gist (fulltext);
create index idx_title on film (title);
create table film_actor (
  actor_id integer not null references actor (actor_id) on update cascade on delete restrict,
  film_id integer not null references film (film_id) on update cascade on delete restrict,
  last_update timestamp with time zone default now() not null,
  primary key (actor_id, film_id)
);
create table film_category (
  film_id integer not null references film (film_id) on update cascade on delete restrict,
  category_id integer not null references category (category_id) on update cascade on delete restrict,
  last_update timestamp with time zone default now() not null,
  primary key (film_id, category_id)
);
create table customer (
  customer_id serial primary key,
  first_name text not null,
  last_name text not null,
  email text,
  activebool boolean default true not null,
  create_date date default current_date not null,
  last_update timestamp with time zone default now(),
  active integer
);
create table inventory (
  inventory_id serial primary key,
  film_id integer not null references film (film_id) on update cascade on delete restrict,
  last_update timestamp with time zone default now() not null
);
create table rental (
  rental_id serial primary key,
  rental_date timestamp with time zone not null,
  inventory_id integer not null references inventory (inventory_id) on delete restrict,
  customer_id integer not null references customer (customer_id) on delete restrict,
  return_date timestamp with time zone,
  rental_period tstzrange,
  last_update timestamp with time zone default now() not null
);
create unique index idx_unq_rental on rental (rental_date, inventory_id, customer_id);
create table payment (
  payment_id serial not null,
  customer_id integer not null references customer (customer_id) on delete restrict,
  rental_id integer not null references rental (rental_id) on delete restrict,
  amount numeric(5, 2) not null,
  payment_date timestamp with time zone not null,
  primary key (payment_date, payment_id)
) partition by range (payment_date);
create table payment_p2022_01 partition of payment for values from ('2022-01-01 00:00:00+00') to ('2022-02-01 00:00:00+00');
create table payment_p2022_02 partition of payment for values from ('2022-02-01 00:00:00+00') to ('2022-03-01 00:00:00+00');

create function last_updated() returns trigger language plpgsql as $$
begin
  new.last_update = current_timestamp;
  return new;
end $$;
create trigger last_updated before update on actor for each row execute function last_updated();
create trigger last_updated before update on film for each row execute function last_updated();
create trigger film_fulltext_trigger before insert or update on film
  for each row execute function tsvector_update_trigger('fulltext', 'pg_catalog.english', 'title', 'description');

create view film_list as
  select f.film_id as fid, f.title, f.description, c.name as category, f.rental_rate as price, f.length, f.rating,
    string_agg(a.first_name || ' ' || a.last_name, ', ' order by a.actor_id) as actors
  from film f join film_category fc using (film_id) join category c using (category_id)
    join film_actor fa using (film_id) join actor a using (actor_id)
  group by f.film_id, c.name;
create materialized view rental_by_category as
  select c.name as category, sum(p.amount) as total_sales
  from payment p join rental r using (rental_id) join inventory i using (inventory_id)
    join film_category fc using (film_id) join category c using (category_id)
  group by c.name with no data;

insert into language (name) values ('English'), ('Italian'), ('Japanese');
insert into actor (first_name, last_name) values ('ADA', 'STONE'), ('BEN', 'WINTER'), ('CLEO', 'MARSH'), ('DAN', 'O''HARA');
insert into category (name) values ('Drama'), ('Comedy'), ('Travel');
insert into film (title, description, release_year, language_id, rating, special_features, length, rental_rate) values
  ('THE LONG RIVER', 'A quiet story of a boat and a dog', 2006, 1, 'PG', '{Trailers,"Deleted Scenes"}', 86, 0.99),
  ('NIGHT TRAIN NORTH', 'A thriller between two stations', 2011, 1, 'R', '{Commentaries}', 113, 2.99),
  ('BREAD AND SALT', 'A comedy about a bakery', 1999, 2, 'G', null, null, 4.99),
  ('PAPER MOUNTAIN', null, null, 3, 'NC-17', '{}', 140, 4.99);
insert into film_actor (actor_id, film_id) values (1, 1), (2, 1), (3, 2), (4, 2), (1, 3);
insert into film_category (film_id, category_id) values (1, 1), (2, 1), (3, 2), (4, 3);
insert into customer (first_name, last_name, email, create_date, active) values
  ('MARY', 'LANE', 'mary@example.org', '2020-02-14', 1), ('JOHN', 'FIELD', null, '2021-07-01', 0);
insert into inventory (film_id) values (1), (1), (2), (3);
insert into rental (rental_date, inventory_id, customer_id, return_date, rental_period) values
  ('2022-01-10 10:11:12.345678+00', 1, 1, '2022-01-12 09:00:00+00', '[2022-01-10,2022-01-12)'),
  ('2022-02-01 20:00:00+00', 3, 2, null, null);
insert into payment (customer_id, rental_id, amount, payment_date) values
  (1, 1, 2.99, '2022-01-10 10:11:13.000001+00'), (2, 2, 4.99, '2022-02-01 20:00:05+00');
refresh materialized view rental_by_category;
