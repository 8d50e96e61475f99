/** What models are told about designing schemas and bringing records into them. */
import Type from 'typebox';
import { definePrompt, type Prompt } from '../../kernel/operations/prompts.ts';

const SchemaName = Type.String({
  maxLength: 64,
  pattern: '^[A-Za-z][A-Za-z0-9_]*$',
  description: 'Name of the schema, such as Product',
});

const designDataModel = definePrompt({
  name: 'design_data_model',
  title: 'Design a data model',
  description: 'From a description of an app to schemas, relations, indexes and endpoints',
  arguments: Type.Object({
    purpose: Type.String({
      minLength: 10,
      maxLength: 4_000,
      description: 'What the app is for, and what it keeps: people, things, and how they belong',
    }),
    constraints: Type.Optional(
      Type.String({
        maxLength: 2_000,
        description: 'What must hold: sizes, names that are given, who signs in',
      }),
    ),
  }),
  tools: [
    'get_database_schemas',
    'post_database_schemas',
    'get_database_schemas_id',
    'post_database_schemas_id_plan',
    'put_database_schemas_id',
    'post_database_customendpoints',
  ],
  text: ({ purpose, constraints }) => `# Design a data model

The app: ${purpose}
${constraints === undefined ? '' : `\nWhat must hold: ${constraints}\n`}
1. Read what is there with \`get_database_schemas\`. \`User\` and the other schemas of modules are not yours: relate to them. Use a schema of an operator that fits before you make a second one.
2. Propose the schemas to the user before you make any: for each its fields with types, what is required and unique, its relations, and who may create, read, update and delete. Ask about what the description leaves open. One thing of the app is one schema; what belongs to exactly one record and is never looked for by itself is a nested field.
3. Choose types: \`String\`, \`Number\` (with \`sqlType\` BIGINT or DECIMAL for money and large counts), \`Boolean\`, \`Date\`, \`Relation\` with \`model\` and \`onDelete\` (\`restrict\`, \`cascade\` or \`setNull\`), \`JSON\` only for what has no fixed shape. Put rules into the field: \`required\`, \`unique\` (with \`required\`), \`enum\`, \`default\`, \`validate\`. Do not declare \`_id\`, \`createdAt\` and \`updatedAt\`: every record has them.
4. Try each with \`post_database_schemas\` and \`dryRun: true\`, then make it without. Begin with those that relate to no other. Say in \`conduitOptions.cms.crudOperations\` of every schema which operations need a login: an operation that says nothing may be open to everybody, and the \`warnings\` of the answer name those.
5. To change a schema that is there, read it with \`get_database_schemas_id\`, show the user what \`post_database_schemas_id_plan\` says (\`loses\`, \`hides\`, \`obstacles\`), and only then call \`put_database_schemas_id\` with all fields that it shall have.
6. The list route of a schema takes no filter. For each list that the app shows by something other than its id make an endpoint with \`post_database_customendpoints\`, and give the fields that it compares an index (\`index: true\`).
7. At the end list the schemas with their client routes (\`/database/<Schema>\`, \`/database/function/<endpoint>\`), and say what is still open.`,
});

const importData = definePrompt({
  name: 'import_data',
  title: 'Import data',
  description: 'Brings records from a file or a text into a schema, checked before it is done',
  arguments: Type.Object({
    schema: SchemaName,
    source: Type.String({
      minLength: 1,
      maxLength: 2_000,
      description: 'Where the data is, or what it looks like: a file, its columns, some rows',
    }),
    key: Type.Optional(
      Type.String({
        maxLength: 64,
        pattern: '^[A-Za-z_][A-Za-z0-9_.]*$',
        description: 'Field by which records that are there already are recognised',
      }),
    ),
  }),
  tools: [
    'get_database_schemas',
    'post_database_schemas_schemaname_query',
    'post_database_schemas_schemaname_docs_many',
    'put_database_schemas_schemaname_docs',
  ],
  text: ({ schema, source, key }) => `# Import data into ${schema}

The data: ${source}

1. Find ${schema} with \`get_database_schemas\` (\`search\`). Compare its fields with the data: write down for each column the field, its type, and what has to be converted (dates as ISO 8601, numbers without separators, ids for relations). Say which columns have no field. Add none without the user's word.
2. For relations look up the records they name with \`post_database_schemas_schemaname_query\` on the related schema. Never invent ids.
3. ${
    key === undefined
      ? 'Ask whether some of the records are there already, and by which field they are recognised.'
      : `Look with \`post_database_schemas_schemaname_query\` and \`{"${key}": {"$in": [...]}}\` which records are there already: those are changed, the others are new.`
  }
4. Show the user the mapping, three converted records, and how many will be created and changed. Go on when they agree.
5. Create with \`post_database_schemas_schemaname_docs_many\`, at most 1,000 in one call (\`inputDocuments\`); change with \`put_database_schemas_schemaname_docs\` (\`changedDocuments\`, each with its \`_id\`). A call is all or none: when it is refused, \`errors\` name each place. Correct those rows, and never leave a field out only to get them in.
6. Count with \`post_database_schemas_schemaname_query\` afterwards and compare with what was to come in. Report created, changed and left-out rows, and why.

More than some thousand records are not for tools: a file goes to \`POST /database/schemas/${schema}/docs/import\` over HTTP (CSV or JSON lines, \`dryRun=true\` first). Give the user that command instead.`,
});

export const databasePrompts: readonly Prompt[] = [designDataModel, importData];
