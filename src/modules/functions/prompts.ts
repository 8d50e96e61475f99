/** What models are told about writing functions. */
import Type from 'typebox';
import { definePrompt, type Prompt } from '../../kernel/operations/prompts.ts';
import { functionKinds, NameShape } from './definition/definition.ts';

const writeFunction = definePrompt({
  name: 'write_function',
  title: 'Write a function',
  description: 'Code of your own that runs in the platform: written, tried without effect, stored',
  arguments: Type.Object({
    task: Type.String({
      minLength: 10,
      maxLength: 4_000,
      description: 'What it does, with what input, and what it answers',
    }),
    kind: Type.Optional(
      Type.Enum([...functionKinds], {
        type: 'string',
        description: `What starts it: ${functionKinds.join(', ')}`,
      }),
    ),
    name: Type.Optional(NameShape),
  }),
  tools: [
    'get_functions',
    'post_functions_upload',
    'post_functions_id_invoke',
    'get_functions_executions_functionid',
    'patch_functions_id',
    'post_functions_id_rollback',
  ],
  text: ({ task, kind, name }) => `# Write a function

What it does: ${task}
${kind === undefined ? '' : `What starts it: ${kind}\n`}${name === undefined ? '' : `Its name: ${name}\n`}
1. Look with \`get_functions\` whether one does this already, and how those that are there are written.
2. ${
    kind === undefined
      ? 'Choose what starts it: `request` (a route of the app), `webhook` (a message of another service), `event` (something happened here), `cron` (a time), `hook` (before or after a change of records), `middleware` (stands before routes), `socket`, or `workflow` (steps that survive a restart).'
      : `It is of the kind \`${kind}\`.`
  } Name the inputs with types and \`required\` (\`inputs.bodyParams\`, \`queryParams\`, \`urlParams\`), so that what does not fit is refused before the code runs. \`inputs.auth: true\` asks for a login.
3. Write the code as a module: \`export default async function (ctx, req) { ... }\`. Records are \`ctx.db\` (\`find\`, \`get\`, \`create\`, \`update\`, \`delete\`, \`transaction\`), with the rights of the caller. Use \`rights: "system"\` only where the caller must reach what they may not read, and narrow it with \`inputs.capabilities\`, such as \`["database:read:Order"]\`. Refuse with \`ctx.reject(status, message, code)\`. Keys of other services are \`ctx.secrets.get(name)\`: ask the user to store them, and never write one into the code. Everything that belongs together is one \`ctx.db.transaction\`. What runs again after a failure (\`event\`, \`cron\`, \`workflow\`, webhooks with \`async\`) must do no harm the second time.
4. Show the user the code, the inputs and the rights that it asks for. Store it with \`post_functions_upload\` when they agree. It serves from then on.
5. Try it with \`post_functions_id_invoke\` and \`dryRun: true\`: what it writes is taken back, and what would leave the platform is refused. Try the usual case, a missing input, and input at its limits. \`logs\`, \`status\` and \`error\` (with the line) say what happened.
6. Mend it with \`patch_functions_id\`; each change is a version, and \`post_functions_id_rollback\` goes back. Afterwards read the real runs with \`get_functions_executions_functionid\` (\`success: false\` for those that failed).
7. Report how it is called (\`/functions/<name>\` on the client surface, \`/hook/functions/<name>\` for webhooks), with one example, and what it does not do yet.`,
});

export const functionPrompts: readonly Prompt[] = [writeFunction];
