/** A plan of PostgreSQL as a list of steps, with what stands out in plain words. */
import { cutText } from '../../../../kernel/text.ts';
import { withoutValues } from './server-statements.ts';

/** As `explain (format json)` answers it. */
export interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly Schema?: string;
  readonly 'Index Name'?: string;
  readonly 'Plan Rows'?: number;
  readonly 'Total Cost'?: number;
  readonly 'Index Cond'?: string;
  readonly Filter?: string;
  readonly 'Sort Key'?: readonly string[];
  readonly Plans?: readonly PlanNode[];
}

export interface PlanStep {
  readonly depth: number;
  readonly step: string;
  readonly table?: string;
  readonly index?: string;
  /** Rows that the planner expects. */
  readonly rows: number;
  readonly cost: number;
  /** What is compared, without the values. */
  readonly condition?: string;
}

export interface ExplainedStatement {
  readonly text: string;
  readonly cost: number;
  readonly steps: readonly PlanStep[];
  readonly remarks: readonly string[];
}

const MAX_STEPS = 200;
const MAX_TEXT = 4_000;
/** Rows from which on reading or sorting all of them is worth a word. */
const MANY = 1_000;

export function explained(text: string, plan: PlanNode): ExplainedStatement {
  const steps = [...stepsOf(plan, 0)].slice(0, MAX_STEPS);
  return {
    text: cutText(text, MAX_TEXT),
    cost: plan['Total Cost'] ?? 0,
    steps: steps.map(({ step }) => step),
    remarks: [...new Set(steps.flatMap(({ node }) => remarkOn(node)))],
  };
}

function* stepsOf(node: PlanNode, depth: number): Generator<{ readonly node: PlanNode; readonly step: PlanStep }> {
  const table = node['Relation Name'];
  const index = node['Index Name'];
  const condition = conditionOf(node);
  yield {
    node,
    step: {
      depth,
      step: node['Node Type'],
      ...(table !== undefined && { table }),
      ...(index !== undefined && { index }),
      rows: node['Plan Rows'] ?? 0,
      cost: node['Total Cost'] ?? 0,
      ...(condition !== undefined && { condition }),
    },
  };
  for (const child of node.Plans ?? []) yield* stepsOf(child, depth + 1);
}

function conditionOf(node: PlanNode): string | undefined {
  const parts = [node['Index Cond'], node.Filter, node['Sort Key'] && `order by ${node['Sort Key'].join(', ')}`];
  const text = parts.filter((part) => part !== undefined).join('; ');
  return text === '' ? undefined : cutText(withoutValues(text), 500);
}

function remarkOn(node: PlanNode): readonly string[] {
  const table = node['Relation Name'];
  const below = Math.max(node['Plan Rows'] ?? 0, ...(node.Plans ?? []).map((child) => child['Plan Rows'] ?? 0));
  if (node['Node Type'] === 'Seq Scan' && table !== undefined && (node.Filter !== undefined || below >= MANY)) {
    return [
      node.Filter === undefined
        ? `Reads all rows of ${table}: for an exact count, or because there is no condition that an index could answer`
        : `Reads all rows of ${table} to find those that fit. On a small table that is the fastest way; on a large one an index on what is compared helps`,
    ];
  }
  if (node['Node Type'].endsWith('Sort') && below >= MANY) {
    return [`Sorts about ${Math.round(below)} rows by ${(node['Sort Key'] ?? []).join(', ')}: an index on that would give the order`];
  }
  return [];
}
