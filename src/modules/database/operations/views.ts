/** The views that modules have made. */
import Type from 'typebox';
import { defineOperation, type Operation, standardLimit } from '../../../kernel/operation.ts';
import type { Views } from '../services/views/create.ts';

export const viewOperations = (views: Views): readonly Operation[] => [
  defineOperation({
    surface: 'admin',
    access: 'admin',
    limit: standardLimit,
    id: 'database.views.list',
    method: 'GET',
    path: '/database/views',
    input: {},
    output: Type.Object({
      views: Type.Array(
        Type.Object({
          name: Type.String({ description: 'Also the name of its schema' }),
          schema: Type.String({ description: 'The schema whose records it shows' }),
          select: Type.Array(Type.String()),
          query: Type.Record(Type.String(), Type.Unknown(), { description: 'In the operator language; {} is every record' }),
        }),
      ),
      count: Type.Integer({ minimum: 0 }),
    }),
    summary: 'List the views that modules have made',
    async handler() {
      const found = await views.list();
      return { views: found.map(({ select, ...view }) => ({ ...view, select: [...select] })), count: found.length };
    },
  }),
];
