/**
 * Fields that extend `User` belong to the server unless they are declared open. Those that were there before users
 * could write: they stay open, by the configuration, where an operator sees it.
 */
import type { Migration } from '../../../kernel/database/migration.ts';

const openFields = `
  create table penstock.open_user_fields (field text primary key);
  insert into penstock.open_user_fields
    select distinct field from penstock.declared_schemas,
      json_array_elements(extensions) extension, json_object_keys(extension -> 'fields') field
    where name = 'User' and owner_module = 'authentication'
    on conflict do nothing;
`;

/** `open_user_fields`: waits for the configuration to take it over (services/open-fields.ts); empty from then on. */
export const userDataMigrations: readonly Migration[] = [
  { id: 'user-data-0001-open-fields', run: async (database) => void (await database.query({ text: openFields })) },
];
