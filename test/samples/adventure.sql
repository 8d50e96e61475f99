create schema person;
create schema sales;
create schema production;
create domain person."Name" as character varying(50);
create domain person."NameStyle" as boolean not null default false;
create domain person."ShortName" as person."Name" check (length(value) < 20);
create table person.businessentity (
  businessentityid serial primary key, rowguid uuid not null default gen_random_uuid(), modifieddate timestamp not null default now()
);
create table person.person (
  businessentityid integer primary key references person.businessentity,
  persontype character(2) not null check (upper(persontype) = any (array['SC', 'IN', 'EM'])),
  namestyle person."NameStyle",
  firstname person."Name" not null,
  lastname person."Name" not null,
  emailpromotion integer not null default 0 check (emailpromotion between 0 and 2),
  additionalcontactinfo xml
);
comment on table person.person is 'Human beings involved with us';
comment on column person.person.emailpromotion is '0 none, 1 ours, 2 ours and partners';
create table sales.customer (
  customerid serial primary key, personid integer references person.person (businessentityid), accountnumber text unique
);
create table sales.person (
  businessentityid integer primary key references person.person (businessentityid), salesquota numeric(19, 4), territory person."ShortName"
);
create table sales.salesorderheader (
  salesorderid serial primary key, customerid integer not null references sales.customer,
  orderdate timestamp not null default now(), subtotal money not null default 0
);
create table sales.salesorderdetail (
  salesorderid integer not null references sales.salesorderheader on delete cascade, salesorderdetailid serial not null,
  orderqty smallint not null check (orderqty > 0), productid integer not null,
  primary key (salesorderid, salesorderdetailid)
);
create table production.product (productid serial primary key, name person."Name" not null unique, size int4range);
create table production.unitmeasure (unitmeasurecode character(3) primary key, name person."Name" not null);
create table sales.refund (
  refundid bigint primary key, salesorderid integer, salesorderdetailid integer,
  foreign key (salesorderid, salesorderdetailid) references sales.salesorderdetail
);
create view sales.vperson as select p.businessentityid, p.firstname, s.salesquota from person.person p join sales.person s using (businessentityid);

insert into person.businessentity default values;
insert into person.businessentity default values;
insert into person.person values (1, 'EM', default, 'Ken', 'Sanders', 0, '<a/>'), (2, 'IN', true, 'Rob', 'Walters', 1, null);
insert into sales.customer (personid, accountnumber) values (2, 'AW01');
insert into sales.person values (1, 250000.0000, 'North');
insert into sales.salesorderheader (customerid, subtotal) values (1, 24.5);
insert into sales.salesorderdetail (salesorderid, orderqty, productid) values (1, 2, 1), (1, 1, 1);
insert into production.product (name, size) values ('Bell', '[1,5)');
insert into production.unitmeasure values ('CM', 'Centimetre');
insert into sales.refund values (1, 1, 1);
