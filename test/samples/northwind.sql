create table categories (
  category_id smallint not null primary key, category_name character varying(15) not null, description text, picture bytea
);
create table suppliers (supplier_id smallint not null primary key, company_name character varying(40) not null, homepage text);
create table products (
  product_id smallint not null primary key, product_name character varying(40) not null,
  supplier_id smallint references suppliers, category_id smallint references categories,
  quantity_per_unit character varying(20), unit_price real, units_in_stock smallint, discontinued integer not null
);
create table customers (
  customer_id bpchar(5) not null primary key, company_name character varying(40) not null, country character varying(15)
);
create table employees (
  employee_id smallint not null primary key, last_name character varying(20) not null, first_name character varying(10) not null,
  birth_date date, reports_to smallint references employees, photo bytea
);
create table region (region_id smallint not null primary key, region_description character varying(60) not null);
create table territories (
  territory_id character varying(20) not null primary key, territory_description character varying(60) not null,
  region_id smallint not null references region
);
create table employee_territories (
  employee_id smallint not null references employees, territory_id character varying(20) not null references territories,
  primary key (employee_id, territory_id)
);
create table orders (
  order_id smallint not null primary key, customer_id bpchar(5) references customers, employee_id smallint references employees,
  order_date date, freight real, ship_country character varying(15)
);
create table order_details (
  order_id smallint not null references orders, product_id smallint not null references products,
  unit_price real not null, quantity smallint not null check (quantity > 0), discount real not null default 0,
  primary key (order_id, product_id)
);
create table us_states (state_id smallint not null, state_name character varying(100), state_abbr character varying(2));

insert into categories values (1, 'Drinks', 'Teas and coffees', '\x89504e47'), (2, 'Sweets', null, null);
insert into suppliers values (1, 'Green Valley', 'https://example.org'), (2, 'North Isles', null);
insert into products values
  (1, 'Mint tea', 1, 1, '10 boxes', 18.1, 39, 0), (2, 'Ginger bites', 2, 2, '24 bags', 9.65, 0, 1), (3, 'Oat syrup', 1, 2, null, null, 13, 0);
insert into customers values ('ALFKI', 'Alder Foods', 'Germany'), ('BER', 'Berry & Sons', 'Sweden');
insert into employees values (2, 'Fall', 'Andre', '1952-02-19', null, null), (1, 'Dove', 'Nancy', '1948-12-08', 2, '\x01');
insert into region values (1, 'Eastern'), (2, 'Western');
insert into territories values ('01581', 'Westboro', 1), ('98052', 'Redmond', 2);
insert into employee_territories values (1, '01581'), (2, '98052');
insert into orders values (10248, 'ALFKI', 1, '1996-07-04', 32.38, 'France'), (10249, 'BER  ', 2, '1996-07-05', 11.61, 'Germany');
insert into order_details values (10248, 1, 14.4, 12, 0), (10248, 2, 9.8, 10, 0.15), (10249, 1, 18.6, 9, 0);
insert into us_states values (1, 'Alabama', 'AL'), (2, 'Alaska', 'AK');
