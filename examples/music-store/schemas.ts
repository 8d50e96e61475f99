/**
 * The eleven schemas of the Chinook sample (a shop that sells music), written
 * in the schema language. The order matters only for reading: a relation may
 * point to a schema that comes later.
 */
export const tableNames = [
  'Genre',
  'MediaType',
  'Artist',
  'Album',
  'Track',
  'Playlist',
  'PlaylistTrack',
  'Employee',
  'Customer',
  'Invoice',
  'InvoiceLine',
] as const;

export type TableName = (typeof tableNames)[number];

/** Body of `POST /database/schemas`. */
export interface SchemaBody {
  readonly name: TableName;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly conduitOptions: unknown;
}

const name = {
  type: 'String',
  required: true,
  unique: true,
  validate: { minLength: 1, maxLength: 120 },
};
const requiredText = { type: 'String', required: true };
const email = { type: 'String', required: true, unique: true, validate: { format: 'email' } };
const money = { type: 'Number', required: true, validate: { min: 0 } };
const count = { type: 'Number', required: true, validate: { integer: true, min: 0 } };
const address = {
  street: 'String',
  city: 'String',
  state: 'String',
  country: 'String',
  postalCode: 'String',
};

const relation = (model: TableName, options: object = {}): object => ({
  type: 'Relation',
  model,
  ...options,
});
const required = (model: TableName): object => relation(model, { required: true });
/** The row goes when the target goes. */
const partOf = (model: TableName): object =>
  relation(model, { required: true, onDelete: 'cascade' });

const fields: Readonly<Record<TableName, Readonly<Record<string, unknown>>>> = {
  Genre: { name },
  MediaType: { name },
  Artist: { name },
  Album: { title: requiredText, artist: required('Artist'), releasedOn: 'Date' },
  Track: {
    name: requiredText,
    album: required('Album'),
    mediaType: required('MediaType'),
    genre: relation('Genre'),
    composer: 'String',
    milliseconds: count,
    bytes: count,
    unitPrice: money,
  },
  Playlist: { name, description: 'String', moods: ['String'] },
  PlaylistTrack: { playlist: partOf('Playlist'), track: partOf('Track'), position: count },
  Employee: {
    firstName: requiredText,
    lastName: requiredText,
    title: 'String',
    reportsTo: relation('Employee'),
    birthDate: 'Date',
    hireDate: 'Date',
    address,
    phone: 'String',
    email,
  },
  Customer: {
    firstName: requiredText,
    lastName: requiredText,
    company: 'String',
    address,
    phone: 'String',
    email,
    supportRep: relation('Employee', { onDelete: 'setNull' }),
  },
  Invoice: {
    customer: required('Customer'),
    invoiceDate: { type: 'Date', required: true },
    billing: address,
    total: money,
  },
  InvoiceLine: {
    invoice: partOf('Invoice'),
    track: required('Track'),
    unitPrice: money,
    quantity: count,
  },
};

/** The catalogue may be read by everybody; people and sales only by those who are signed in. */
const publicTables: ReadonlySet<TableName> = new Set([
  'Genre',
  'MediaType',
  'Artist',
  'Album',
  'Track',
  'Playlist',
  'PlaylistTrack',
]);

const optionsOf = (table: TableName): unknown => ({
  cms: {
    enabled: true,
    crudOperations: {
      read: { enabled: true, authenticated: !publicTables.has(table) },
      create: { enabled: true, authenticated: true },
      update: { enabled: true, authenticated: true },
      delete: { enabled: true, authenticated: true },
    },
  },
});

export const schemas: readonly SchemaBody[] = tableNames.map((table) => ({
  name: table,
  fields: fields[table],
  conduitOptions: optionsOf(table),
}));
