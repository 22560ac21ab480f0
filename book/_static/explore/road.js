export function road() {}
