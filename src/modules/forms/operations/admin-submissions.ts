/** What was sent with forms, as operators see it. */
import Type from 'typebox';
import { defineOperation, type Operation, Reply } from '../../../kernel/operations/operation.ts';
import { formErrors } from '../errors.ts';
import type { Forms } from '../services/forms.ts';
import type { Submissions } from '../services/submissions.ts';
import {
  adminFacts,
  FormParams,
  Submission,
  SubmissionParams,
  SubmissionQuery,
  submissionOnWire,
} from './shapes.ts';

interface Services {
  readonly forms: Forms;
  readonly submissions: Submissions;
}

export const submissionOperations = (services: Services): readonly Operation[] => [
  list(services),
  exportCsv(services),
  get(services),
  judge(services),
  remove(services),
  erase(services),
];

const list = ({ forms, submissions }: Services): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'forms.submissions.list',
    method: 'GET',
    path: '/admin/forms/:formId/submissions',
    heavy: true,
    input: {
      params: FormParams,
      query: Type.Object({
        ...SubmissionQuery.properties,
        format: Type.Enum(['json', 'csv'], {
          default: 'json',
          description: 'csv: 302 to the export with the same filter',
        }),
      }),
    },
    output: Type.Object({ submissions: Type.Array(Submission), count: Type.Integer() }),
    otherStatuses: { 302: 'with `format=csv`' },
    errors: [formErrors.FORM_NOT_FOUND],
    summary: 'List the submissions of a form',
    handler: async (_context, { params, query: { sort, format, ...page } }) => {
      const { id } = await forms.get(params.formId);
      if (format === 'csv') return Reply.redirect(exportAddress(id, page));
      const newestFirst = sort === '-createdAt';
      const { submissions: rows, count } = await submissions.list({
        ...page,
        formId: id,
        newestFirst,
      });
      return { submissions: rows.map(submissionOnWire), count };
    },
  });

const { skip: _skip, limit: _limit, sort: _sort, ...filterFields } = SubmissionQuery.properties;

function exportAddress(id: string, filter: Readonly<Record<string, unknown>>): string {
  const query = new URLSearchParams(
    Object.keys(filterFields).flatMap((name): [string, string][] =>
      filter[name] === undefined ? [] : [[name, String(filter[name])]],
    ),
  );
  const path = `/admin/forms/${id}/submissions/export`;
  return query.size === 0 ? path : `${path}?${query}`;
}

const exportCsv = ({ forms, submissions }: Services): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'forms.submissions.export',
    method: 'GET',
    path: '/admin/forms/:formId/submissions/export',
    deadlineMs: 3_600_000,
    heavy: true,
    input: { params: FormParams, query: Type.Object(filterFields) },
    output: Type.String({ contentMediaType: 'text/csv' }),
    streams: { 'text/csv': 'One line for each submission, oldest first' },
    errors: [formErrors.FORM_NOT_FOUND],
    summary: 'Export the submissions of a form as CSV',
    description: 'Texts that a spreadsheet would run as a formula begin with an apostrophe.',
    handler: async ({ signal }, { params, query }) => {
      const form = await forms.get(params.formId);
      return Reply.stream('text/csv; charset=utf-8', submissions.export(form, query, signal), {
        'content-disposition': 'attachment; filename="submissions.csv"',
      });
    },
  });

const get = ({ submissions }: Services): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'forms.submissions.get',
    method: 'GET',
    path: '/admin/forms/submissions/:submissionId',
    input: { params: SubmissionParams },
    output: Submission,
    errors: [formErrors.SUBMISSION_NOT_FOUND],
    summary: 'Read a submission',
    handler: async (_context, { params }) =>
      submissionOnWire(await submissions.get(params.submissionId)),
  });

const judge = ({ submissions }: Services): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'forms.submissions.judge',
    method: 'PATCH',
    path: '/admin/forms/submissions/:submissionId',
    input: {
      params: SubmissionParams,
      body: Type.Object({
        possibleSpam: Type.Boolean({ description: 'Whether it looks like spam' }),
      }),
    },
    output: Submission,
    errors: [formErrors.SUBMISSION_NOT_FOUND],
    openWorld: true,
    summary: 'Say whether a submission is spam',
    description: 'One that is none after all is forwarded and answered now.',
    handler: async ({ caller }, { params, body }) =>
      submissionOnWire(await submissions.judge(caller, params.submissionId, body.possibleSpam)),
  });

const remove = ({ submissions }: Services): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'forms.submissions.delete',
    method: 'DELETE',
    path: '/admin/forms/submissions/:submissionId',
    input: { params: SubmissionParams },
    output: Type.Object({ message: Type.String(), deleted: Type.Literal(true) }),
    errors: [formErrors.SUBMISSION_NOT_FOUND],
    summary: 'Delete a submission',
    description: 'With the files that came with it.',
    handler: async (_context, { params }) => {
      await submissions.remove(params.submissionId);
      return { message: 'Submission deleted', deleted: true as const };
    },
  });

const erase = ({ submissions }: Services): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'forms.submissions.erase',
    method: 'POST',
    path: '/admin/forms/submissions/erase',
    destructive: true,
    input: {
      body: Type.Object({
        email: Type.String({
          minLength: 3,
          maxLength: 254,
          description: 'The address that was given in the field `emailField` of any form',
        }),
      }),
    },
    output: Type.Object({ deletedCount: Type.Integer() }),
    summary: 'Delete everything that was sent from an address',
    description:
      'Of all forms, with files. What signed-in users have sent goes with their account by itself.',
    handler: async (_context, { body }) => ({
      deletedCount: await submissions.erase({ email: body.email.trim() }),
    }),
  });
