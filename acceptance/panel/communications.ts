/** Messages to people (section 6). */
import { expect } from 'vitest';
import { flag, list, number, type Row, some, text } from './row.ts';

export const communications: readonly Row[] = [
  {
    call: 'POST /email/templates',
    body: { name: 'panel', subject: 'Hello', body: '<p>{{name}}</p>', variables: ['name'] },
    reads: { template: expect.objectContaining({ _id: text, name: 'panel' }) },
    keep: ({ template }) => ({ templateId: template._id }),
  },
  {
    call: 'GET /email/templates?skip=0&limit=10&search=panel&sort=name',
    reads: {
      templateDocuments: some({
        _id: text,
        name: text,
        subject: text,
        body: text,
        variables: list,
        externalManaged: flag,
      }),
      count: number,
    },
  },
  { call: 'PATCH /email/templates/{templateId}', body: { subject: 'Other' } },
  {
    call: 'POST /email/send',
    body: { email: 'eva@example.com', subject: 'Hello', sender: 'panel', body: '<p>Hi</p>' },
  },
  { call: 'POST /sms/send', body: { to: '+306900000000', message: 'Hi' } },
  { call: 'DELETE /email/templates?ids={templateId}' },
];
