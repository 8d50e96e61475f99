/** What models are told about permissions: setting them, and finding out why somebody is not let in. */
import Type from 'typebox';
import { definePrompt, type Prompt } from '../../kernel/operations/prompts.ts';

const SchemaName = Type.String({
  maxLength: 64,
  pattern: '^[A-Za-z][A-Za-z0-9_]*$',
  description: 'Name of the schema, such as Document',
});
/** Without what separates the parts of a reference. */
const RecordId = Type.String({
  maxLength: 1_024,
  pattern: '^[^\\s:#@*,]+$',
  description: 'Id of the record (`_id`)',
});

const setPermissions = definePrompt({
  name: 'set_permissions',
  title: 'Set permissions for a schema',
  description: 'From "who may do what" in words to switches, a resource definition and a check',
  arguments: Type.Object({
    schema: SchemaName,
    rules: Type.String({
      minLength: 10,
      maxLength: 4_000,
      description: 'Who may create, read, change and delete its records, in words',
    }),
  }),
  tools: [
    'get_database_schemas',
    'get_authorization_resources',
    'patch_database_schemas_id',
    'post_authorization_resources_many',
    'patch_authorization_resources_id',
    'post_authorization_relations_write',
    'post_authorization_permissions_check',
  ],
  text: ({ schema, rules }) => `# Set permissions for ${schema}

What shall hold: ${rules}

1. Read ${schema} with \`get_database_schemas\` (\`search\`) and the types that exist with \`get_authorization_resources\`. Note \`conduitOptions\`: \`cms.crudOperations.<create|read|update|delete>\` (is there a route, does it need a login) and \`authorization.enabled\` (is each record asked about).
2. Choose the least that says it:
   - the same for everybody, or for everybody who is signed in: the switches \`enabled\` and \`authenticated\` alone;
   - different per record (own records, teams, shares): \`authorization: {"enabled": true}\`. Whoever creates a record owns it; then come the relations \`owner\`, \`editor\` and \`reader\`, and the actions \`read\`, \`edit\` and \`delete\`;
   - by what a record leads to (tasks of a project): a relation \`{"from": "<field>"}\` and a role such as \`project->read\`;
   - by values of the record (published ones): \`{"rule": "record.status == 'published'"}\` in the list of the action.
3. Write the rules down as a table (who, action, by which relation) and show it to the user, with the cases that their words do not decide: deleted owners, people without an account, records that are there already.
4. Change the switches with \`patch_database_schemas_id\` and \`dryRun: true\`, then without. Where there are records, say what becomes of them: \`mode: "leaveUnowned"\`, or \`mode: "assignOwner"\` with \`ownerField\`.
5. For rules of your own try the definition with \`post_authorization_resources_many\` and \`dryRun: true\`: read \`warnings\` (\`closed\`, \`lockedOut\`). Then store it, or change the one that is there with \`patch_authorization_resources_id\`. Let \`edit\` imply \`read\`. Do not use \`force\` without the user's word.
6. Give single people a right with \`post_authorization_relations_write\`, \`{"writes": [{"subject": "User:<id>", "relation": "reader", "resource": "${schema}:<id>"}]}\`.
7. Check with \`post_authorization_permissions_check\`: for each row of the table one question that must be allowed and one that must be denied. Report every answer. Mend what is wrong before you say that it is done.`,
});

const explainAccess = definePrompt({
  name: 'explain_access',
  title: 'Find out why somebody may not see a record',
  description: 'Explains a 403, a 404 or an empty list, and what would change it; changes nothing',
  arguments: Type.Object({
    schema: SchemaName,
    record: RecordId,
    user: Type.String({
      maxLength: 1_024,
      pattern: '^[^\\s:#@*,]+$',
      description: 'Id of the user (`_id`)',
    }),
    action: Type.Optional(
      Type.String({
        maxLength: 64,
        pattern: '^[A-Za-z][A-Za-z0-9_]*$',
        description: 'read (unless given), edit, delete, or an action of the definition',
      }),
    ),
  }),
  tools: [
    'get_database_schemas_schemaname_docs_id',
    'get_database_schemas',
    'get_authorization_permissions_evaluate',
    'get_authorization_resources_id',
    'get_authorization_relations',
  ],
  text: ({
    schema,
    record,
    user,
    action = 'read',
  }) => `# Why may User:${user} not ${action} ${schema}:${record}?

Change nothing. Stop at the first step that explains it, but say when a later one could matter too.

1. Is the record there? \`get_database_schemas_schemaname_docs_id\` with \`schemaName: "${schema}"\` and \`id: "${record}"\`. 404: it never was, or it is in the trash.
2. Do the switches let anybody in? \`get_database_schemas\` with \`search: "${schema}"\`: \`conduitOptions.cms.enabled\`, and of the operation \`enabled\` (else the route is 404) and \`authenticated\` (else 401 without a token). When \`authorization.enabled\` is false nobody is asked about single records: then it is none of the steps below.
3. Ask: \`get_authorization_permissions_evaluate\` with \`subject: "User:${user}"\`, \`permission: "${action}"\`, \`resource: "${schema}:${record}"\`. Quote its \`sentence\`. \`outcome\` is \`allowed\`, \`denied\` or \`undecided\` (\`missing\` names the context values on which it hangs).
4. For a denial read \`wouldAllow\`, the nearest change first, and the lines of \`reason\` that are false. Read the definition with \`get_authorization_resources_id\` (\`id: "${schema}"\`) to say which rule of \`${action}\` was meant to let them in, and with \`get_authorization_relations\` (\`resource: "${schema}:${record}"\`) who stands in which relation now.
5. When it is \`allowed\` and they still do not see it: the app may act for a team (\`scope\`), use a custom endpoint with a filter of its own, hold an old cursor, or be signed in as somebody else. Ask for the request and its \`requestId\`.

Answer in three parts: the reason in one sentence; the smallest change that would let them in, with what else it would open; and whether it looks meant or like a mistake. The user decides about the change.`,
});

export const authorizationPrompts: readonly Prompt[] = [setPermissions, explainAccess];
